package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// folder has the files below Dir. Scans, unlike watches, work on every file system.
type folder struct {
	s *Source
	// root is replaced, with the Source locked, when another folder has taken the name.
	root *os.Root
	// scanning lets one scan work at a time.
	scanning sync.Mutex
	skipped  leftOut // of the last scan, guarded by the Source's lock
}

// leftOut counts what a scan left out.
type leftOut struct {
	symlinks   int // their target may lie outside
	special    int // devices, sockets, pipes
	reserved   int // names of documents
	unreadable int // files and folders; what was known stays published
	unsettled  int // changed while they were hashed
}

// signature reports whether a file is still the one that was hashed.
type signature struct {
	size, modified, changed int64 // times in nanoseconds; changed is 0 where the system has none
	inode                   uint64
	// young: one more write in the same tick of the file system's clock would not show, so the file is hashed again.
	young bool
}

func (a signature) same(b signature) bool {
	a.young, b.young = false, false
	return a == b
}

func (s *Source) openFolder(ctx context.Context) error {
	root, err := os.OpenRoot(s.options.Dir)
	if err != nil {
		return fmt.Errorf("open the folder to serve: %w", err)
	}
	f := &folder{s: s, root: root}
	s.backend = f
	for _, rec := range alive(slices.Clone(s.catalog.all)) {
		rec.content = &file{folder: f} // of a file that is hashed now, or cannot be read yet
	}
	if err := f.scan(ctx, !s.state.known()); err != nil {
		return errors.Join(err, root.Close())
	}
	return nil
}

// file is a file as it was hashed.
type file struct {
	folder *folder
	sig    signature
}

func (c *file) open(rec *record) (body, error) {
	s := c.folder.s
	s.mu.RLock()
	root := c.folder.root
	s.mu.RUnlock()
	opened, got, err := openRegular(root, rec.name)
	if err != nil {
		return body{}, err
	}
	modified := time.Unix(0, got.modified)
	return body{ReadSeeker: opened, close: opened.Close, modified: modified, exact: got.same(c.sig)}, nil
}

// openRegular opens a regular file. It never waits for the writer of a pipe, nor follows a link in the file's place
// (F87).
func openRegular(root *os.Root, name string) (*os.File, signature, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, signature{}, err
	}
	if !before.Mode().IsRegular() {
		return nil, signature{}, fmt.Errorf("open %q: no longer a regular file: %w", name, fs.ErrNotExist)
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, signature{}, err
	}
	after, err := file.Stat()
	if err != nil {
		return nil, signature{}, errors.Join(err, file.Close())
	}
	if !os.SameFile(before, after) {
		file.Close()
		return nil, signature{}, fmt.Errorf("open %q: replaced while it was opened: %w", name, errChanging)
	}
	return file, signatureOf(after), nil
}

// errChanging says that a file did not hold still.
var errChanging = errors.New("changing")

// Scan publishes what has changed in the folder and in the file of records.
func (s *Source) Scan(ctx context.Context) error {
	var dir, file error
	if f, ok := s.backend.(*folder); ok {
		dir = f.scan(ctx, false)
	}
	if s.options.Records != "" {
		file = s.records.scan()
	}
	return errors.Join(dir, file)
}

func (f *folder) run(ctx context.Context) {
	f.s.watch(ctx, "folder "+f.s.options.Dir, func() error { return f.scan(ctx, false) })
}

// scan publishes what has changed in the folder. The first one of all fills the catalog without making changes of it.
func (f *folder) scan(ctx context.Context, first bool) error {
	f.scanning.Lock()
	defer f.scanning.Unlock()
	if err := f.reopen(); err != nil {
		return fmt.Errorf("look at the folder to serve: %w", err)
	}
	w := &walk{folder: f, seen: map[*record]bool{}}
	if err := w.run(ctx); err != nil {
		return fmt.Errorf("look at the folder %s: %w", f.s.options.Dir, err)
	}
	slices.SortFunc(w.found, func(a, b *record) int { return cmp.Compare(a.name, b.name) })
	f.apply(w, first)
	return nil
}

// reopen opens the folder again if another one has taken its name.
func (f *folder) reopen() error {
	named, err := os.Stat(f.s.options.Dir)
	if err != nil {
		return err
	}
	if opened, err := f.root.Stat("."); err == nil && os.SameFile(named, opened) {
		return nil
	}
	root, err := os.OpenRoot(f.s.options.Dir)
	if err != nil {
		return err
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	// Requests may still use the old one; the runtime closes it after them.
	f.root = root
	return nil
}

// apply publishes deletions first: a file that has become a folder goes before the files in it come. The lock is taken
// for each change, so that requests get in between.
func (f *folder) apply(w *walk, first bool) {
	s := f.s
	for _, rec := range w.gone() {
		s.mu.Lock()
		s.publish(&record{name: rec.name})
		s.mu.Unlock()
	}
	for _, rec := range w.found {
		s.mu.Lock()
		old := s.catalog.find(rec.name)
		if first || old != nil && old.live && old.sum == rec.sum && old.version == rec.version {
			s.catalog.set(rec)
		} else {
			s.publish(rec)
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	before := f.skipped
	f.skipped = w.skipped
	s.mu.Unlock()
	if k := w.skipped; k != before {
		s.options.Logger.Info("left out of the Source", "symlinks", k.symlinks, "special", k.special,
			"reserved", k.reserved, "unreadable", k.unreadable, "unsettled", k.unsettled)
	}
}

// hashFile reads one file; errChanging if it changes meanwhile.
func (f *folder) hashFile(name string) (*record, error) {
	opened, before, err := openRegular(f.root, name)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	rec := &record{name: name, live: true, content: &file{f, before}}
	if err := f.s.fill(rec, opened); err != nil {
		return nil, fmt.Errorf("hash %q: %w", name, err)
	}
	info, err := opened.Stat()
	if err != nil {
		return nil, fmt.Errorf("hash %q: %w", name, err)
	}
	after := signatureOf(info)
	if !after.same(before) || rec.length != after.size {
		return nil, fmt.Errorf("hash %q: %w", name, errChanging)
	}
	rec.modified, rec.version = info.ModTime().Unix(), after.modified
	f.s.compare(rec)
	return rec, nil
}

// maxDepth is how deep folders may lie; each level holds one open file.
const maxDepth = 512

// walk is one scan of the folder. Nobody else changes the catalog meanwhile, so that it is read without a lock.
type walk struct {
	folder  *folder
	fresh   []string // files that look new
	found   []*record
	seen    map[*record]bool // still there, or not known to be gone
	blocked []string         // folders that could not be read: nothing below them counts as gone (F11)
	skipped leftOut
}

// run goes through the folders, then hashes what looks new.
func (w *walk) run(ctx context.Context) error {
	if err := w.read(ctx, w.folder.root, "", 0); err != nil {
		return err
	}
	records, failures := make([]*record, len(w.fresh)), make([]error, len(w.fresh))
	hashes, ctx := errgroup.WithContext(ctx)
	hashes.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range w.fresh {
		hashes.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			records[i], failures[i] = w.folder.hashFile(name)
			return nil
		})
	}
	if err := hashes.Wait(); err != nil {
		return err
	}
	for i, name := range w.fresh {
		if err := failures[i]; err != nil {
			w.failed(name, err)
			continue
		}
		w.keep(name)
		w.found = append(w.found, records[i])
	}
	return nil
}

// keep notes that what is published under a name is not gone.
func (w *walk) keep(name string) { w.seen[w.folder.s.catalog.find(name)] = true }

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
			w.skipped.reserved++
		case t.IsDir():
			if err := w.enter(ctx, dir, e.Name(), name+"/", depth+1); err != nil {
				return err
			}
		case t&fs.ModeSymlink != 0:
			w.skipped.symlinks++
		case !t.IsRegular():
			w.skipped.special++
		default:
			w.file(dir, e.Name(), name)
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

// file has a file hashed if it looks new.
func (w *walk) file(dir *os.Root, base, name string) {
	info, err := dir.Lstat(base)
	if err != nil {
		w.failed(name, err)
		return
	}
	if old := w.folder.s.catalog.find(name); old != nil && old.live {
		if sig := old.content.(*file).sig; !sig.young && sig.same(signatureOf(info)) {
			w.keep(name)
			return
		}
	}
	w.fresh = append(w.fresh, name)
}

// failed sorts out a file that could not be read: unless it is gone, it stays published as it was.
func (w *walk) failed(name string, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	w.keep(name)
	if errors.Is(err, errChanging) {
		w.skipped.unsettled++
	} else {
		w.skipped.unreadable++
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
	w.blocked = append(w.blocked, prefix)
	w.skipped.unreadable++
	w.folder.s.options.Logger.Debug("folder left out", "name", prefix, "err", err)
	return nil
}

// gone lists the files that are no longer there.
func (w *walk) gone() []*record {
	return slices.DeleteFunc(alive(slices.Clone(w.folder.s.catalog.all)), func(rec *record) bool {
		return w.seen[rec] || w.under(rec.name)
	})
}

// under reports whether a name lies below a folder that could not be read.
func (w *walk) under(name string) bool {
	return slices.ContainsFunc(w.blocked, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
