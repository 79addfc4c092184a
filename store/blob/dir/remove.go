package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"resyncd/store/blob"
)

// Remove implements blob.Mirror.
func (m *Mirror) Remove(ctx context.Context, keys []string) []error {
	return m.removeNames(ctx, "remove", len(keys),
		func(i int) string { return keys[i] },
		func(_ *change, _ int, h *cachedFolder, name string) error { return removeFile(h.folder, name) })
}

// removeNames has each item leave its folder, removes emptied folders, then makes all durable.
func (m *Mirror) removeNames(ctx context.Context, op string, n int, key func(int) string,
	take func(c *change, i int, h *cachedFolder, name string) error) []error {
	errs := make([]error, n)
	if err := m.beginWrite(ctx); err != nil {
		return fail(errs, err)
	}
	defer m.active.Done()
	c := m.newChange()
	emptied := map[string]struct{}{}
	for _, i := range sortedIndexes(n, key) {
		if errs[i] = ctx.Err(); errs[i] != nil {
			continue
		}
		err := checkKey(key(i), blob.CheckForeignKey)
		if err == nil {
			err = c.removeName(i, key(i), take)
		}
		if err == nil {
			path, _ := split(key(i))
			emptied[path] = struct{}{}
		}
		errs[i] = keyError(op, key(i), m.explain(err))
	}
	c.prune(emptied)
	if err := c.commit(n); err != nil {
		return fail(errs, err)
	}
	return errs
}

func (c *change) removeName(i int, key string, take func(c *change, i int, h *cachedFolder, name string) error) error {
	path, name := split(key)
	return c.m.inExisting(path, c.started, func(h *cachedFolder) error {
		info, err := h.root.Lstat(name)
		if err != nil {
			return err
		}
		if info.IsDir() {
			return blob.ErrIsFolder
		}
		err = take(c, i, h, name)
		if err == nil {
			c.touch(path)
			return nil
		}
		if _, there := h.root.Lstat(name); there == nil && errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %v", blob.ErrIO, err) // the folder is missing, not the file (F11)
		}
		return err
	})
}

// prune removes folders that are empty now, and then their parents, never the root.
func (c *change) prune(emptied map[string]struct{}) {
	deepest := func(a, b string) int { return len(b) - len(a) }
	for _, path := range slices.SortedFunc(maps.Keys(emptied), deepest) {
		for path != "" && c.pruneOne(path) {
			path, _ = split(path)
		}
	}
}

// pruneOne removes one folder if it is empty. A failure is no error: an empty folder does no harm.
func (c *change) pruneOne(path string) bool {
	c.m.prune.Lock()
	defer c.m.prune.Unlock()
	above, name := split(path)
	h, err := c.m.folders.acquire(above, c.started, nil)
	if err != nil {
		return false
	}
	defer c.m.folders.release(h)
	if err := removeFolder(h.folder, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	c.m.folders.dropPath(path)
	delete(c.touched, path)
	c.touch(above)
	c.m.sync.freshMu.Lock()
	delete(c.m.sync.fresh, path)
	c.m.sync.freshMu.Unlock()
	return true
}
