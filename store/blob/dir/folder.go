package dir

import (
	"os"
	"path"
	"strings"
	"sync"

	"resyncd/store/blob"
)

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

// childMade is child that makes a missing folder first.
func (f *folder) childMade(name string, mode os.FileMode) (*folder, error) {
	if err := f.root.Mkdir(name, mode); err != nil && !os.IsExist(err) {
		return nil, err
	}
	return f.child(name)
}

// isAt reports whether name still leads to this folder.
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

// split splits a key into its folder ("" is the root) and its last name.
func split(key string) (folder, name string) {
	i := strings.LastIndexByte(key, '/')
	if i < 0 {
		return "", key
	}
	return key[:i], key[i+1:]
}
