package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"resyncd/store/blob"
)

// Open implements blob.Mirror.
func (m *Mirror) Open(ctx context.Context, key string) (file blob.File, info blob.Info, err error) {
	err = m.withKey(ctx, "open", key, func(h *cachedFolder, name string) error {
		return m.retryBusy(func() error {
			f, fi, err := openRegular(h.folder, name)
			if err == nil {
				file, info = f, infoOf(key, fi)
			}
			return err
		})
	})
	return file, info, err
}

// Stat implements blob.Mirror.
func (m *Mirror) Stat(ctx context.Context, key string) (info blob.Info, err error) {
	err = m.withKey(ctx, "stat", key, func(h *cachedFolder, name string) error {
		fi, err := h.root.Lstat(name)
		if err == nil {
			info = infoOf(key, fi)
		}
		return err
	})
	return info, err
}

// withKey runs a call on one key. A missing file is ErrNotFound.
func (m *Mirror) withKey(ctx context.Context, op, key string, do func(h *cachedFolder, name string) error) error {
	err := m.begin(ctx)
	if err == nil {
		defer m.active.Done()
		err = checkKey(key, blob.CheckForeignKey)
	}
	if err == nil {
		path, name := split(key)
		err = m.inExisting(path, recently(), func(h *cachedFolder) error { return do(h, name) })
	}
	return keyError(op, key, err)
}

// recently is since when the name of a folder must have been checked for a reader.
func recently() time.Time { return time.Now().Add(-staleAfter) }

// inExisting works in an existing folder, whose name was checked not before since. A missing one is
// ErrNotFound after a second check: it may have been made anew.
func (m *Mirror) inExisting(path string, since time.Time, do func(h *cachedFolder) error) error {
	return asNotFound(m.inFolder(path, since, nil, 2, do))
}

// inFolder works in a folder, whose name was checked not before since, again while it vanishes
// meanwhile. With making, missing folders are made.
func (m *Mirror) inFolder(path string, since time.Time, making func(path string), tries int,
	do func(h *cachedFolder) error) error {
	for ; ; since = time.Now() {
		h, err := m.folders.acquire(path, since, making)
		if err == nil {
			err = do(h)
			m.folders.release(h)
		}
		if tries--; tries == 0 || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}

// openRegular opens a regular file for reading. It is checked before, because opening a device has
// effects, and after, because os.Root would follow a link that stays inside.
func openRegular(f *folder, name string) (*os.File, os.FileInfo, error) {
	for range tries {
		info, err := f.root.Lstat(name)
		if err != nil {
			return nil, nil, err
		}
		if !info.Mode().IsRegular() {
			return nil, nil, blob.ErrNotRegular
		}
		file, err := f.root.OpenFile(name, os.O_RDONLY|openFlags, 0)
		if err != nil {
			return nil, nil, err
		}
		opened, err := file.Stat()
		// A FIFO may have got the number of the file that it replaced.
		if err == nil && os.SameFile(info, opened) && opened.Mode().IsRegular() {
			return file, opened, nil
		}
		file.Close()
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, blob.ErrBusy // the name changes all the time
}

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

// chunk is how many names of a folder are in memory at a time (F86).
const chunk = 512

type walker struct {
	ctx    context.Context
	fn     func(blob.Info) error
	failed int   // parts that could not be read
	first  error // the first of them
	ended  bool  // by an error of its own
}

// Walk implements blob.Mirror.
func (m *Mirror) Walk(ctx context.Context, fn func(blob.Info) error) error {
	if err := m.begin(ctx); err != nil {
		return fmt.Errorf("walk mirror: %w", err)
	}
	defer m.active.Done()
	w := &walker{ctx: ctx, fn: fn}
	if err := w.folder(m.folders.top.folder); err != nil {
		return err
	}
	if w.failed > 0 {
		return fmt.Errorf("walk mirror: %d parts could not be read, the first: %w", w.failed, w.first)
	}
	return nil
}

func (w *walker) folder(f *folder) error {
	err := eachName(w.ctx, f, func(name string) error {
		if f.path == "" && strings.EqualFold(name, blob.Reserved) {
			return nil
		}
		return w.name(f, name)
	})
	if w.ended || err != nil && w.ctx.Err() != nil {
		return w.end(err)
	}
	return w.note(f.path, err)
}

func (w *walker) name(f *folder, name string) error {
	below := path.Join(f.path, name)
	fi, err := f.root.Lstat(name)
	if err != nil {
		return w.note(below, err)
	}
	// A folder below which no key reaches is reported itself, which bounds the open folders.
	if !fi.IsDir() || len(below) >= blob.MaxKey {
		if err := w.fn(infoOf(below, fi)); err != nil {
			return w.end(err)
		}
		return nil
	}
	child, err := f.child(name)
	if err != nil { // also when it is no folder any more: its kind is unknown then
		return w.note(below, err)
	}
	defer child.close()
	return w.folder(child)
}

// note records a part that could not be read. Without descriptors the walk ends.
func (w *walker) note(at string, err error) error {
	err = classify(err)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, blob.ErrBusy):
		return w.end(fmt.Errorf("walk mirror at %q: %w", at, err))
	}
	if w.failed++; w.first == nil {
		w.first = fmt.Errorf("%q: %w", at, err)
	}
	return nil
}

func (w *walker) end(err error) error {
	w.ended = true
	return err
}
