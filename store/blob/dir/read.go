package dir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"resyncd/store/blob"
)

// recent opens a folder for reading, seen at its path a moment ago at most.
func (m *Mirror) recent(path string) (*held, error) {
	return m.folders.acquire(path, time.Now().Add(-staleAfter), nil)
}

// Open implements blob.Mirror.
func (m *Mirror) Open(ctx context.Context, key string) (blob.File, blob.Info, error) {
	var file *os.File
	var info os.FileInfo
	err := m.look(ctx, key, func(h *held, name string) error {
		return m.retryBusy(func() (err error) {
			file, info, err = openRegular(h.folder, name)
			return err
		})
	})
	if err != nil {
		return nil, blob.Info{}, keyError("open", key, err)
	}
	return file, infoOf(key, info), nil
}

// Stat implements blob.Mirror.
func (m *Mirror) Stat(ctx context.Context, key string) (blob.Info, error) {
	var info os.FileInfo
	err := m.look(ctx, key, func(h *held, name string) (err error) {
		info, err = h.root.Lstat(name)
		return err
	})
	if err != nil {
		return blob.Info{}, keyError("stat", key, err)
	}
	return infoOf(key, info), nil
}

// look runs a call on one key. What is not there is ErrNotFound.
func (m *Mirror) look(ctx context.Context, key string, do func(h *held, name string) error) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.active.Done()
	if err := checkForeignKey(key); err != nil {
		return err
	}
	path, name := split(key)
	return m.inExisting(path, time.Now().Add(-staleAfter), func(h *held) error { return do(h, name) })
}

// inExisting does something in a folder that must be there, seen not before since. What is missing is ErrNotFound, but only
// after a second look at the folder: it may have been removed and made anew since it was opened.
func (m *Mirror) inExisting(path string, since time.Time, do func(h *held) error) error {
	for try := 0; ; try++ {
		h, err := m.folders.acquire(path, since, nil)
		if err == nil {
			err = do(h)
			m.folders.release(h)
		}
		if try == 1 || !errors.Is(err, fs.ErrNotExist) {
			return absent(err)
		}
		since = time.Now()
	}
}

// openRegular opens a file for reading if it is one: looked at before, because opening a device does things, and after,
// because names change hands.
func openRegular(f *folder, name string) (*os.File, os.FileInfo, error) {
	info, err := f.root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, blob.ErrNotRegular
	}
	file, err := openNoFollow(f, name)
	if err != nil {
		return nil, nil, err
	}
	info, err = file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = blob.ErrNotRegular
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// infoOf translates what the system knows of a name.
func infoOf(key string, fi os.FileInfo) blob.Info {
	i := blob.Info{Key: key, ModTime: fi.ModTime().UnixNano()}
	switch mode := fi.Mode(); {
	case mode.IsRegular():
		i.Kind, i.Length = blob.KindFile, fi.Size()
	case mode.IsDir():
		i.Kind = blob.KindFolder
	case mode&os.ModeSymlink != 0:
		i.Kind = blob.KindSymlink
	default:
		i.Kind = blob.KindOther
	}
	return i
}
