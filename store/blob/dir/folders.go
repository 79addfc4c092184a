package dir

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"resyncd/store/blob"
)

// folders keeps the recently used folders open, so that a name costs one system call however deep it lies. Another
// process may move a folder: a handle counts only for a while, then its name is checked again.
type folders struct {
	top   *cachedFolder
	limit int

	mu   sync.Mutex
	open map[string]*cachedFolder
}

type cachedFolder struct {
	*folder
	refs    int
	checked time.Time // when its name last led to it
	gone    bool      // no longer in the table; closed by its last user
}

func newFolders(top *folder, limit int) *folders {
	return &folders{top: &cachedFolder{folder: top, refs: 1}, limit: limit, open: map[string]*cachedFolder{}}
}

// acquire opens the folder at path, whose name was checked not before since. With making, missing folders are made.
// The caller releases it. ErrParentNotFolder if a component is something else; fs.ErrNotExist if it is missing.
func (c *folders) acquire(path string, since time.Time, making func(path string)) (*cachedFolder, error) {
	if path == "" {
		return c.top, nil
	}
	if h := c.lookup(path, since); h != nil {
		return h, nil
	}
	above, name := split(path)
	parent, err := c.acquire(above, since, making)
	if err != nil {
		return nil, err
	}
	defer c.release(parent)

	now := time.Now()
	if h := c.lookup(path, time.Time{}); h != nil {
		if h.isAt(parent.folder, name) {
			c.confirm(h, now)
			return h, nil
		}
		c.release(h)
		c.dropPath(path)
	}
	f, err := c.openChild(parent.folder, name, path, making)
	if err != nil {
		return nil, err
	}
	return c.insert(f, now), nil
}

// openChild opens or makes the folder. Without descriptors, it first closes unused folders (F11).
func (c *folders) openChild(parent *folder, name, path string, making func(path string)) (*folder, error) {
	f, err := parent.child(name)
	if errors.Is(classify(err), blob.ErrBusy) {
		c.closeUnused()
		f, err = parent.child(name)
	}
	if making == nil || !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	mode := os.FileMode(0o755)
	if path == blob.Reserved || strings.HasPrefix(path, blob.Reserved+"/") {
		mode = 0o700
	}
	making(path)
	return parent.childMade(name, mode)
}

// lookup takes the handle for path if it was checked not before since.
func (c *folders) lookup(path string, since time.Time) *cachedFolder {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.open[path]
	if h == nil || h.checked.Before(since) {
		return nil
	}
	h.refs++
	return h
}

func (c *folders) confirm(h *cachedFolder, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.checked = now
}

// insert caches a folder just opened, unless another goroutine was faster.
func (c *folders) insert(f *folder, now time.Time) *cachedFolder {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.open[f.path]; old != nil {
		c.forget(old)
	}
	h := &cachedFolder{folder: f, refs: 1, checked: now}
	c.open[f.path] = h
	c.trim(c.limit)
	return h
}

func (c *folders) release(h *cachedFolder) {
	if h == c.top {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h.refs--
	if h.gone && h.refs == 0 {
		h.close()
		return
	}
	c.trim(c.limit)
}

// dropPath closes the handle of a folder that was moved or removed.
func (c *folders) dropPath(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.open[path]; h != nil {
		c.forget(h)
	}
}

func (c *folders) closeUnused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trim(0)
}

// trim closes handles that are not in use, whichever come first: a folder opened again costs little. The caller holds
// mu.
func (c *folders) trim(to int) {
	for _, h := range c.open {
		if len(c.open) <= to {
			return
		}
		if h.refs == 0 {
			c.forget(h)
		}
	}
}

// forget takes a handle out of the table. The caller holds mu.
func (c *folders) forget(h *cachedFolder) {
	h.gone = true
	delete(c.open, h.path)
	if h.refs == 0 {
		h.close()
	}
}

// close closes everything. Nothing may be in use.
func (c *folders) close() {
	c.closeUnused()
	c.top.close()
}

// folder is an open folder of the mirror. All work in it uses names of one component, so that no
// link on a path is followed (performance.md 7.4).
type folder struct {
	path string // below the mirror root, slash-separated; "" is the root itself
	root *os.Root
	info os.FileInfo // identifies the folder, whatever its name leads to by now

	mu   sync.Mutex
	file *os.File
}

// openTop opens the mirror root, the only folder opened by a path, which may be a link.
func openTop(path string) (*folder, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	return &folder{root: root, info: info}, nil
}

// child opens a folder in a folder. os.Root follows links that stay inside, which must not happen
// (F87): what Lstat saw and what was opened must be the same, or child tries again.
func (f *folder) child(name string) (*folder, error) {
	below := path.Join(f.path, name)
	for range tries {
		want, err := f.root.Lstat(name)
		if err != nil {
			return nil, err
		}
		if !want.IsDir() {
			break
		}
		root, err := f.root.OpenRoot(name)
		if err != nil {
			return nil, err
		}
		got, err := root.Stat(".")
		if err == nil && os.SameFile(want, got) {
			return &folder{path: below, root: root, info: got}, nil
		}
		root.Close()
		if err != nil {
			return nil, err
		}
	}
	return nil, &blob.KeyError{At: below, Err: blob.ErrParentNotFolder}
}

func (f *folder) childMade(name string, mode os.FileMode) (*folder, error) {
	if err := f.root.Mkdir(name, mode); err != nil && !os.IsExist(err) {
		return nil, err
	}
	return f.child(name)
}

func (f *folder) isAt(parent *folder, name string) bool {
	now, err := parent.root.Lstat(name)
	return err == nil && now.IsDir() && os.SameFile(now, f.info)
}

// handle is the folder as a file, for what os.Root does not have.
func (f *folder) handle() (*os.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		file, err := f.root.Open(".")
		if err != nil {
			return nil, err
		}
		f.file = file
	}
	return f.file, nil
}

func (f *folder) close() {
	f.root.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file != nil {
		f.file.Close()
	}
}

func split(key string) (folder, name string) {
	i := strings.LastIndexByte(key, '/')
	if i < 0 {
		return "", key
	}
	return key[:i], key[i+1:]
}
