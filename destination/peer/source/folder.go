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
	// signatures are by slot; the Source's lock guards them.
	signatures []signature
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

func (f *folder) reach(slot int, rec *record) func() (body, error) {
	root, name, want := f.root, rec.name, f.signatures[slot]
	return func() (body, error) {
		file, got, err := openRegular(root, name)
		if err != nil {
			return body{}, err
		}
		modified := time.Unix(0, got.modified)
		return body{ReadSeeker: file, close: file.Close, modified: modified, exact: got.same(want)}, nil
	}
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

// scan publishes what has changed in the folder. The first one fills the catalog without making changes of it.
func (f *folder) scan(ctx context.Context, first bool) error {
	f.scanning.Lock()
	defer f.scanning.Unlock()
	if err := f.reopen(); err != nil {
		return fmt.Errorf("look at the folder to serve: %w", err)
	}
	f.s.mu.RLock()
	w := &walk{folder: f, seen: make([]bool, f.s.catalog.slots)}
	f.s.mu.RUnlock()
	found, err := w.run(ctx)
	if err != nil {
		return fmt.Errorf("look at the folder %s: %w", f.s.options.Dir, err)
	}
	slices.SortFunc(found, func(a, b foundFile) int { return cmp.Compare(a.rec.name, b.rec.name) })
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
func (f *folder) apply(found []foundFile, w *walk, first bool) {
	s := f.s
	for _, slot := range f.gone(w) {
		s.mu.Lock()
		s.publish(slot, record{})
		s.mu.Unlock()
	}
	for _, file := range found {
		s.mu.Lock()
		slot := s.catalog.slotFor(file.rec.name)
		for len(f.signatures) <= slot {
			f.signatures = append(f.signatures, signature{})
		}
		old := *s.catalog.at(slot)
		f.signatures[slot] = file.sig
		switch {
		case first:
			s.catalog.put(slot, file.rec)
		case !old.live || old.sum != file.rec.sum || old.version != file.rec.version:
			s.publish(slot, file.rec)
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

// gone lists the slots of files that are no longer there.
func (f *folder) gone(w *walk) []int {
	f.s.mu.RLock()
	defer f.s.mu.RUnlock()
	var slots []int
	for slot, seen := range w.seen {
		if rec := f.s.catalog.at(slot); !seen && rec.live && !w.under(rec.name) {
			slots = append(slots, slot)
		}
	}
	return slots
}

// hashFile reads one file; errChanging if it changes meanwhile.
func (f *folder) hashFile(name string) (foundFile, error) {
	file, before, err := openRegular(f.root, name)
	if err != nil {
		return foundFile{}, err
	}
	defer file.Close()
	rec := record{name: name, live: true}
	if err := f.s.digests.fill(&rec, file); err != nil {
		return foundFile{}, fmt.Errorf("hash %q: %w", name, err)
	}
	info, err := file.Stat()
	if err != nil {
		return foundFile{}, fmt.Errorf("hash %q: %w", name, err)
	}
	after := signatureOf(info)
	if !after.same(before) || rec.length != after.size {
		return foundFile{}, fmt.Errorf("hash %q: %w", name, errChanging)
	}
	// version is the time of modification in nanoseconds: a touch is a change.
	rec.modified, rec.version = info.ModTime().Unix(), after.modified
	return foundFile{rec: rec, sig: before}, nil
}
