package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"resyncd/store/blob"
)

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
