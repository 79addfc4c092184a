package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"resyncd/store/blob"
)

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
	if err := firstSystemic(errs); err != nil {
		return errs, err
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

// firstSystemic is the error of the group: the first that is not one item's.
func firstSystemic(errs []error) error {
	for _, err := range errs {
		if err != nil && blob.Systemic(err) {
			return err
		}
	}
	return nil
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
