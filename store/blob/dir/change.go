package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"resyncd/store/blob"
)

// change is the work of one call on the tree. It syncs the touched folders together at its end.
type change struct {
	m        *Mirror
	started  time.Time
	failures uint64
	touched  map[string]bool // true: synced before the rest, as the target of a move before its origin
}

func (m *Mirror) newChange() *change {
	return &change{m: m, started: time.Now(), failures: m.sync.failures.Load(), touched: map[string]bool{}}
}

// sortedIndexes are the indexes of n keys in the order of the keys, so that the items of one folder
// are worked on together, while it is cached.
func sortedIndexes(n int, key func(i int) string) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(key(a), key(b)) })
	return order
}

func (c *change) touch(path string) {
	if !c.touched[path] {
		c.touched[path] = false
	}
}

// touchFirst notes a folder that files were moved to: a power cut may leave them in both places, never in none.
func (c *change) touchFirst(path string) { c.touched[path] = true }

// making notes a folder before it is made. Until its own name is on disk, nothing below it is,
// whichever call puts it there.
func (c *change) making(path string) {
	y := &c.m.sync
	if !y.durable {
		return
	}
	y.freshMu.Lock()
	defer y.freshMu.Unlock()
	y.makings++
	y.fresh[path] = y.makings
}

// commit makes all touched names durable. size is how many items the call had.
func (c *change) commit(size int) error {
	y := &c.m.sync
	if !y.durable || len(c.touched) == 0 {
		return nil
	}
	settled := c.addFresh()
	if err := c.syncTouched(size); err != nil {
		return err
	}
	if y.failures.Load() != c.failures {
		return fmt.Errorf("%w: a sync failed meanwhile", blob.ErrSync)
	}
	y.freshMu.Lock()
	defer y.freshMu.Unlock()
	for path, making := range settled {
		if y.fresh[path] == making { // unless removed and made again meanwhile
			delete(y.fresh, path)
		}
	}
	return nil
}

// addFresh touches the parents of folders above touched ones that are not on disk yet.
func (c *change) addFresh() (settled map[string]uint64) {
	y := &c.m.sync
	y.freshMu.Lock()
	defer y.freshMu.Unlock()
	if len(y.fresh) == 0 {
		return nil
	}
	settled = map[string]uint64{}
	seen := map[string]struct{}{}
	for _, path := range slices.Collect(maps.Keys(c.touched)) {
		for path != "" {
			if _, twice := seen[path]; twice {
				break
			}
			seen[path] = struct{}{}
			above, _ := split(path)
			if making, ok := y.fresh[path]; ok {
				settled[path] = making
				c.touch(above)
			}
			path = above
		}
	}
	return settled
}

// syncTouched syncs the touched folders, one by one or all at once.
func (c *change) syncTouched(size int) error {
	if c.m.sync.whole && max(size, len(c.touched)) > smallGroup {
		return c.m.sync.all()
	}
	var later []string
	for path, first := range c.touched {
		if !first {
			later = append(later, path)
		} else if err := c.syncFolder(path); err != nil {
			return err
		}
	}
	return parallel(len(later), func(i int) error { return c.syncFolder(later[i]) })
}

// syncFolder syncs one folder, as its name leads to it now. A missing one was pruned by a call that syncs its parent.
func (c *change) syncFolder(path string) error {
	h, err := c.m.folders.acquire(path, time.Now(), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer c.m.folders.release(h)
		var f *os.File
		err = c.m.retryBusy(func() (err error) {
			f, err = h.handle()
			return err
		})
		if err == nil {
			return c.m.sync.folder(f)
		}
	}
	return fmt.Errorf("%w: %w", blob.ErrSync, classify(err)) // not confirmed, whatever the reason
}

// smallGroup is up to how many files or folders a sync of each is cheaper than one of the whole
// file system (performance.md 7.5).
const smallGroup = 8

// syncWorkers is how many files are synced at a time where each needs its own sync.
const syncWorkers = 16

// syncer makes bytes and names durable. The kernel reports a lost write once, so a failed sync is
// never tried again (F10): it is counted, and Place refuses everything staged before.
type syncer struct {
	durable bool
	whole   bool     // the file system can be synced as one
	fs      *os.File // one descriptor from the start, so that no error falls between two
	mu      sync.Mutex
	// failures counts syncs that failed.
	failures atomic.Uint64

	freshMu sync.Mutex
	fresh   map[string]uint64 // new folders whose names are not on disk yet: the number of their making
	makings uint64

	// Replaced in tests of failing disks.
	syncWhole, syncFile func(*os.File) error
}

func (y *syncer) init(top *folder, durable bool) error {
	h, err := top.handle()
	if err != nil {
		return err
	}
	y.fs = h
	y.durable = durable
	y.whole = durable && canSyncWhole(h)
	y.fresh = map[string]uint64{}
	y.syncWhole, y.syncFile = syncWhole, (*os.File).Sync
	return nil
}

// all syncs the whole file system. One at a time: of two at once, only one would get an error.
func (y *syncer) all() error {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.failed(y.syncWhole(y.fs))
}

func (y *syncer) file(f *os.File) error { return y.failed(y.syncFile(f)) }

func (y *syncer) folder(f *os.File) error {
	err := y.syncFile(f)
	if unsyncable(err) {
		return nil
	}
	return y.failed(err)
}

func (y *syncer) failed(err error) error {
	if err == nil {
		return nil
	}
	y.failures.Add(1)
	return fmt.Errorf("%w: %w", blob.ErrSync, classify(err))
}

// syncFolder syncs before there is a syncer, while the root is made.
func syncFolder(f *os.File) error {
	if err := f.Sync(); err != nil && !unsyncable(err) {
		return fmt.Errorf("%w: %w", blob.ErrSync, classify(err))
	}
	return nil
}

// unsyncable reports a file system without a sync of folders.
func unsyncable(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}

// parallel runs a call for every index, some at a time. It returns the first error, after all have ended.
func parallel(n int, do func(i int) error) error {
	if n == 1 {
		return do(0)
	}
	var g errgroup.Group
	g.SetLimit(syncWorkers)
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}

// tries is how often a name is tried while another process prunes its folder.
const tries = 8

// Place implements blob.Mirror.
func (m *Mirror) Place(ctx context.Context, group []blob.Placement) ([]error, error) {
	errs := make([]error, len(group))
	if err := m.beginWrite(ctx); err != nil {
		return fail(errs, err), err
	}
	defer m.active.Done()
	c := m.newChange()
	stages := make([]*stage, len(group))
	for i := range group {
		stages[i], errs[i] = c.checkItem(&group[i])
	}
	if err := c.syncData(stages, errs); err != nil {
		return fail(errs, err), err
	}
	var stopped error
	for _, i := range sortedIndexes(len(group), func(i int) string { return group[i].Key }) {
		if errs[i] != nil {
			continue
		}
		if stopped = ctx.Err(); stopped != nil {
			errs[i] = stopped
			continue
		}
		errs[i] = keyError("place", group[i].Key, m.explain(c.placeStage(stages[i], &group[i])))
	}
	if err := c.commit(len(group)); err != nil {
		return fail(errs, err), err
	}
	if i := slices.IndexFunc(errs, blob.Systemic); i >= 0 {
		return errs, errs[i]
	}
	return errs, stopped
}

func fail(errs []error, err error) []error {
	for i := range errs {
		if errs[i] == nil {
			errs[i] = err
		}
	}
	return errs
}

// checkItem checks an item before anything is done with it, and ends its writing.
func (c *change) checkItem(p *blob.Placement) (*stage, error) {
	p.Displaced = false
	err := checkKey(p.Key, blob.CheckKey)
	if err == nil && p.Displace != "" {
		err = blob.CheckTrashID(p.Displace)
	}
	s, ok := p.Stage.(*stage)
	if err == nil && (!ok || s == nil || s.m != c.m || s.used) {
		err = blob.ErrStage
	}
	if err == nil {
		err = s.Close()
	}
	if err == nil && c.m.sync.durable && s.failuresBefore != c.failures {
		err = fmt.Errorf("%w: the disk lost writes since this was staged, fetch it again", blob.ErrSync)
	}
	return s, keyError("place", p.Key, err)
}

// syncData makes the bytes of all good stages durable. An error is the group's.
func (c *change) syncData(stages []*stage, errs []error) error {
	y := &c.m.sync
	if !y.durable {
		return nil
	}
	good, closed := make([]*stage, 0, len(stages)), false
	for i, s := range stages {
		if errs[i] == nil {
			good = append(good, s)
			closed = closed || s.file == nil
		}
	}
	var err error
	switch {
	case len(good) == 0:
		return nil
	case y.whole && (closed || len(good) > smallGroup):
		err = y.all() // also reports what was lost behind closed descriptors
	default:
		err = c.syncEach(good)
	}
	if err != nil {
		return err
	}
	if y.failures.Load() != c.failures {
		return fmt.Errorf("%w: a sync failed meanwhile", blob.ErrSync)
	}
	return nil
}

func (c *change) syncEach(good []*stage) error {
	return parallel(len(good), func(i int) error {
		s := good[i]
		if s.file != nil {
			return c.m.sync.file(s.file)
		}
		f, err := s.shard.root.OpenFile(s.name, os.O_WRONLY|openFlags, 0)
		if err != nil {
			return classify(err)
		}
		defer f.Close()
		return c.m.sync.file(f)
	})
}

func (c *change) placeStage(s *stage, p *blob.Placement) error {
	if s.used {
		return blob.ErrStage // twice in one group
	}
	path, name := split(p.Key)
	return c.inFolder(path, func(h *cachedFolder) error { return c.put(s, h, name, p) })
}

// inFolder works in a folder, made if missing.
func (c *change) inFolder(path string, do func(h *cachedFolder) error) error {
	c.m.prune.RLock()
	defer c.m.prune.RUnlock()
	return c.m.inFolder(path, c.started, c.making, tries, do)
}

func (c *change) put(s *stage, h *cachedFolder, name string, p *blob.Placement) error {
	var undo func() error
	if p.Displace != "" {
		var err error
		if undo, err = c.displace(h, name, p.Displace); err != nil {
			return err
		}
	}
	err := c.m.retryBusy(func() error { return rename(c.m.folders.top.folder, s.shard, s.name, h.folder, name) })
	if err != nil {
		if info, lerr := h.root.Lstat(name); lerr == nil && info.IsDir() {
			err = blob.ErrIsFolder
		}
		if undo != nil {
			if uerr := undo(); uerr != nil {
				err = fmt.Errorf("%w (what was there stays in the trash as %s: %w)", err, p.Displace, uerr)
				p.Displaced = true
			}
		}
		return err
	}
	p.Displaced = undo != nil
	s.used = true
	s.release()
	c.touch(h.path)
	return nil
}

// displace puts what has the name into the trash. A regular file keeps its name until the new one takes it, so that a
// reader always finds one or the other; anything else is moved. undo is nil if nothing was there.
func (c *change) displace(h *cachedFolder, name, id string) (undo func() error, err error) {
	info, err := h.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && info.IsDir() {
		err = blob.ErrIsFolder
	}
	if err != nil {
		return nil, err
	}
	trash, err := c.trash()
	if err != nil {
		return nil, err
	}
	defer c.m.folders.release(trash)
	top := c.m.folders.top.folder
	c.touchFirst(trash.path)
	if info.Mode().IsRegular() {
		err = link(top, h.folder, name, trash.folder, id)
		if err == nil {
			return func() error { return c.inTrash(func(t *folder) error { return removeFile(t, id) }) }, nil
		}
		if errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("%w: trash id %s", blob.ErrExists, id)
		}
		// No hard links here, or not for files of others: the name is free for a moment.
	}
	if err := c.move(h.folder, name, trash.folder, id); err != nil {
		return nil, asExists(err, id)
	}
	return func() error {
		return c.inTrash(func(t *folder) error { return c.move(t, id, h.folder, name) })
	}, nil
}

// asExists turns a taken name in the trash into blob.ErrExists.
func asExists(err error, id string) error {
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: trash id %s", blob.ErrExists, id)
	}
	return err
}
