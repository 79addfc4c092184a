package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
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
	if err := f.scan(ctx, true); err != nil {
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

// scan publishes what has changed in the folder. The first one fills the catalog without making changes of it.
func (f *folder) scan(ctx context.Context, first bool) error {
	f.scanning.Lock()
	defer f.scanning.Unlock()
	if err := f.reopen(); err != nil {
		return fmt.Errorf("look at the folder to serve: %w", err)
	}
	w := &walk{folder: f, seen: map[*record]bool{}}
	found, err := w.run(ctx)
	if err != nil {
		return fmt.Errorf("look at the folder %s: %w", f.s.options.Dir, err)
	}
	slices.SortFunc(found, func(a, b *record) int { return cmp.Compare(a.name, b.name) })
	f.apply(found, w, first)
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
func (f *folder) apply(found []*record, w *walk, first bool) {
	s := f.s
	for _, rec := range f.gone(w) {
		s.mu.Lock()
		s.publish(&record{name: rec.name})
		s.mu.Unlock()
	}
	for _, rec := range found {
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

// gone lists the files that are no longer there.
func (f *folder) gone(w *walk) []*record {
	f.s.mu.RLock()
	defer f.s.mu.RUnlock()
	var gone []*record
	for _, rec := range f.s.catalog.all {
		if rec != nil && rec.live && !w.seen[rec] && !w.under(rec.name) {
			gone = append(gone, rec)
		}
	}
	return gone
}

// hashFile reads one file; errChanging if it changes meanwhile.
func (f *folder) hashFile(name string) (*record, error) {
	opened, before, err := openRegular(f.root, name)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	rec := &record{name: name, live: true, content: &file{f, before}}
	if err := f.s.digests.fill(rec, opened); err != nil {
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
	return rec, nil
}
