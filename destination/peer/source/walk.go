package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// maxDepth is how deep folders may lie; each level holds one open file.
const maxDepth = 512

// walk is one scan of the folder: one goroutine reads folders, several hash what looks new.
type walk struct {
	folder *folder
	hashes *errgroup.Group

	mu      sync.Mutex // guards what follows
	found   []*record
	seen    map[*record]bool // still there, or not known to be gone
	blocked []string         // folders that could not be read: nothing below them counts as gone (F11)
	skipped leftOut
}

func (w *walk) run(ctx context.Context) ([]*record, error) {
	w.hashes, ctx = errgroup.WithContext(ctx)
	w.hashes.SetLimit(runtime.GOMAXPROCS(0))
	err := w.read(ctx, w.folder.root, "", 0)
	return w.found, errors.Join(w.hashes.Wait(), err)
}

// read goes through one folder. Only an error of the topmost one, or the end of ctx, ends the walk.
func (w *walk) read(ctx context.Context, dir *os.Root, prefix string, depth int) error {
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return w.unreadable(prefix, err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := prefix + e.Name()
		switch t := e.Type(); {
		case w.folder.s.reserved(name):
			w.locked(func() { w.skipped.reserved++ })
		case t.IsDir():
			if err := w.enter(ctx, dir, e.Name(), name+"/", depth+1); err != nil {
				return err
			}
		case t&fs.ModeSymlink != 0:
			w.locked(func() { w.skipped.symlinks++ })
		case !t.IsRegular():
			w.locked(func() { w.skipped.special++ })
		default:
			w.file(ctx, dir, e.Name(), name)
		}
	}
	return nil
}

func (w *walk) enter(ctx context.Context, dir *os.Root, base, prefix string, depth int) error {
	if depth > maxDepth {
		return w.unreadable(prefix, fmt.Errorf("more than %d folders deep", maxDepth))
	}
	sub, err := dir.OpenRoot(base)
	if err != nil {
		return w.unreadable(prefix, err)
	}
	defer sub.Close()
	return w.read(ctx, sub, prefix, depth)
}

func (w *walk) locked(note func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	note()
}

// file has a file hashed if it looks new.
func (w *walk) file(ctx context.Context, dir *os.Root, base, name string) {
	info, err := dir.Lstat(base)
	old := w.known(name)
	if err != nil {
		w.failed(old, name, err)
		return
	}
	if old != nil {
		if sig := old.content.(*file).sig; !sig.young && sig.same(signatureOf(info)) {
			w.locked(func() { w.seen[old] = true })
			return
		}
	}
	w.hashes.Go(func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		found, err := w.folder.hashFile(name)
		if err != nil {
			w.failed(old, name, err)
			return nil
		}
		w.locked(func() { w.found, w.seen[old] = append(w.found, found), true })
		return nil
	})
}

// known finds what is published under a name; nil: nothing.
func (w *walk) known(name string) *record {
	s := w.folder.s
	s.mu.RLock()
	defer s.mu.RUnlock()
	if rec := s.catalog.find(name); rec != nil && rec.live {
		return rec
	}
	return nil
}

// failed sorts out a file that could not be read: unless it is gone, it stays published as it was.
func (w *walk) failed(old *record, name string, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	w.locked(func() {
		w.seen[old] = true
		if errors.Is(err, errChanging) {
			w.skipped.unsettled++
		} else {
			w.skipped.unreadable++
		}
	})
	w.folder.s.options.Logger.Debug("file left out", "name", name, "err", err)
}

func (w *walk) unreadable(prefix string, err error) error {
	if prefix == "" {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	w.locked(func() {
		w.blocked = append(w.blocked, prefix)
		w.skipped.unreadable++
	})
	w.folder.s.options.Logger.Debug("folder left out", "name", prefix, "err", err)
	return nil
}

// under reports whether a name lies below a folder that could not be read.
func (w *walk) under(name string) bool {
	return slices.ContainsFunc(w.blocked, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
