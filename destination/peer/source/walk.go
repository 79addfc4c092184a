package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// maxDepth is how deep folders may lie; each level holds one open file.
const maxDepth = 512

type foundFile struct {
	rec record
	sig signature
}

// walk is one scan of the folder: one goroutine reads folders, several hash what looks new.
type walk struct {
	folder *folder
	hashes *errgroup.Group

	mu      sync.Mutex // guards what follows
	found   []foundFile
	seen    []bool   // by slot: still there, or not known to be gone
	blocked []string // folders that could not be read: nothing below them counts as gone (F11)
	skipped leftOut
}

func (w *walk) run(ctx context.Context) ([]foundFile, error) {
	w.hashes, ctx = errgroup.WithContext(ctx)
	w.hashes.SetLimit(runtime.GOMAXPROCS(0))
	err := w.read(ctx, w.folder.root, "", 0)
	return w.found, errors.Join(w.hashes.Wait(), err)
}

// read goes through one folder. Only an error of the topmost one, or the end of ctx, ends the walk.
func (w *walk) read(ctx context.Context, dir *os.Root, prefix string, depth int) error {
	f, err := dir.Open(".")
	if err != nil {
		return w.unreadable(prefix, err)
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(1024)
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := w.entry(ctx, dir, prefix, e, depth); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return w.unreadable(prefix, err)
		}
	}
}

func (w *walk) entry(ctx context.Context, dir *os.Root, prefix string, e fs.DirEntry, depth int) error {
	name := prefix + e.Name()
	switch t := e.Type(); {
	case w.folder.s.reserved(name):
		w.skip(&w.skipped.reserved)
	case t.IsDir():
		return w.enter(ctx, dir, e.Name(), name+"/", depth)
	case t&fs.ModeSymlink != 0:
		w.skip(&w.skipped.symlinks)
	case !t.IsRegular():
		w.skip(&w.skipped.special)
	default:
		w.file(ctx, dir, e.Name(), name)
	}
	return nil
}

func (w *walk) enter(ctx context.Context, dir *os.Root, base, prefix string, depth int) error {
	if depth >= maxDepth {
		return w.unreadable(prefix, fmt.Errorf("more than %d folders deep", maxDepth))
	}
	sub, err := dir.OpenRoot(base)
	if err != nil {
		return w.unreadable(prefix, err)
	}
	defer sub.Close()
	return w.read(ctx, sub, prefix, depth+1)
}

// file has a file hashed if it looks new.
func (w *walk) file(ctx context.Context, dir *os.Root, base, name string) {
	info, err := dir.Lstat(base)
	slot, known, sig := w.known(name)
	if err != nil {
		w.failed(slot, known, name, err)
		return
	}
	if known && !sig.young && sig.same(signatureOf(info)) {
		w.keep(slot)
		return
	}
	w.hashes.Go(func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		found, err := w.folder.hashFile(name)
		if err != nil {
			w.failed(slot, known, name, err)
			return nil
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.found = append(w.found, found)
		if known {
			w.seen[slot] = true
		}
		return nil
	})
}

func (w *walk) known(name string) (slot int, known bool, sig signature) {
	s := w.folder.s
	s.mu.RLock()
	defer s.mu.RUnlock()
	slot, ok := s.catalog.find(name)
	if !ok || !s.catalog.at(slot).live {
		return 0, false, signature{}
	}
	return slot, true, w.folder.signatures[slot]
}

func (w *walk) keep(slot int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[slot] = true
}

// failed sorts out a file that could not be read: unless it is gone, it stays published as it was.
func (w *walk) failed(slot int, known bool, name string, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if known {
		w.keep(slot)
	}
	if errors.Is(err, errChanging) {
		w.skip(&w.skipped.unsettled)
	} else {
		w.skip(&w.skipped.unreadable)
	}
	w.folder.s.options.Logger.Debug("file left out", "name", name, "err", err)
}

func (w *walk) unreadable(prefix string, err error) error {
	if prefix == "" {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	w.mu.Lock()
	w.blocked = append(w.blocked, prefix)
	w.skipped.unreadable++
	w.mu.Unlock()
	w.folder.s.options.Logger.Debug("folder left out", "name", prefix, "err", err)
	return nil
}

func (w *walk) skip(counter *int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*counter++
}

// under reports whether a name lies below a folder that could not be read.
func (w *walk) under(name string) bool {
	for _, prefix := range w.blocked {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
