package dir

import (
	"os"
	"path"
	"strings"
	"sync"

	"resyncd/store/blob"
)

// folder is an open folder of the mirror. All work in it uses names of one component, so that no path is walked, no link
// on a path is followed, and the kernel does no more than it must (speed.md 7.4).
type folder struct {
	path string // below the mirror root, slash-separated; "" is the root itself
	root *os.Root
	info os.FileInfo // which folder this is, whatever its name leads to by now

	mu   sync.Mutex
	file *os.File
}

// openTop opens the mirror root, the only folder that is found by a path (which may be a link: the operator chose it).
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

// child opens a folder in a folder. os.Root follows links that stay inside, we follow none (F87): what Lstat called a
// folder and what was opened must be the same one. If they are not, the name changed hands (another call prunes and makes
// folders, too): look again.
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

// childMade is child that makes the folder first if need be.
func (f *folder) childMade(name string, mode os.FileMode) (*folder, error) {
	if err := f.root.Mkdir(name, mode); err != nil && !os.IsExist(err) {
		return nil, err
	}
	return f.child(name)
}

// still tells whether name leads to this very folder.
func (f *folder) still(parent *folder, name string) bool {
	now, err := parent.root.Lstat(name)
	return err == nil && now.IsDir() && os.SameFile(now, f.info)
}

// handle is the folder as a file: for syncing it, and for calls of the system that os.Root does not have.
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

// close lets go of the descriptors.
func (f *folder) close() {
	f.root.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file != nil {
		f.file.Close()
	}
}

// split cuts a key into its folder ("" is the root) and its last name.
func split(key string) (folder, name string) {
	i := strings.LastIndexByte(key, '/')
	if i < 0 {
		return "", key
	}
	return key[:i], key[i+1:]
}
