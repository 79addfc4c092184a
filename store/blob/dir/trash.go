package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"

	"resyncd/store/blob"
)

const trashPath = blob.Reserved + "/" + trashName

// trash opens the trash, and makes it again if it is missing: that is not the file's absence (F11).
func (c *change) trash() (*cachedFolder, error) {
	t, err := c.m.folders.acquire(trashPath, c.started, c.making)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s cannot be made: %v", blob.ErrIO, trashPath, err)
	}
	return t, err
}

func (c *change) inTrash(do func(*folder) error) error {
	t, err := c.trash()
	if err != nil {
		return err
	}
	defer c.m.folders.release(t)
	return do(t.folder)
}

// move moves a file between open folders, and replaces nothing.
func (c *change) move(from *folder, name string, to *folder, as string) error {
	err := renameNew(c.m.folders.top.folder, from, name, to, as)
	if err == nil {
		c.touch(from.path)
		c.touchFirst(to.path)
	}
	return err
}

// Trash implements blob.Mirror.
func (m *Mirror) Trash(ctx context.Context, items []blob.TrashItem) []error {
	return m.removeNames(ctx, "trash", len(items),
		func(i int) string { return items[i].Key },
		func(c *change, i int, h *cachedFolder, name string) error {
			if err := blob.CheckTrashID(items[i].ID); err != nil {
				return err
			}
			return c.inTrash(func(t *folder) error {
				return asExists(c.move(h.folder, name, t, items[i].ID), items[i].ID)
			})
		})
}

// Restore implements blob.Mirror.
func (m *Mirror) Restore(ctx context.Context, id, key string) error {
	err := m.beginWrite(ctx)
	if err == nil {
		defer m.active.Done()
		err = m.restore(id, key)
	}
	return keyError("restore", key, m.explain(err))
}

func (m *Mirror) restore(id, key string) error {
	err := checkKey(key, blob.CheckKey)
	if err == nil {
		err = blob.CheckTrashID(id)
	}
	if err != nil {
		return err
	}
	c := m.newChange()
	err = c.inTrash(func(t *folder) error {
		info, err := t.root.Lstat(id)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: trash id %s", blob.ErrNotFound, id)
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return blob.ErrNotRegular
		}
		path, name := split(key)
		return c.inFolder(path, func(h *cachedFolder) error {
			err := c.move(t, id, h.folder, name)
			if !errors.Is(err, fs.ErrExist) {
				return err
			}
			if info, err := h.root.Lstat(name); err == nil && info.IsDir() {
				return blob.ErrIsFolder
			}
			return blob.ErrExists
		})
	})
	if err != nil {
		return err
	}
	return c.commit(1)
}

// OpenTrash implements blob.Mirror.
func (m *Mirror) OpenTrash(ctx context.Context, id string) (file blob.File, info blob.Info, err error) {
	err = m.withTrashID(ctx, m.begin, "open", id, func(t *folder) error {
		f, fi, err := openRegular(t, id)
		if err == nil {
			file, info = f, infoOf("", fi)
		}
		return err
	})
	return file, info, err
}

// DropTrash implements blob.Mirror.
func (m *Mirror) DropTrash(ctx context.Context, id string) error {
	return m.withTrashID(ctx, m.beginWrite, "drop", id, func(t *folder) error { return removeFile(t, id) })
}

// withTrashID runs a call on one id. A missing file is ErrNotFound.
func (m *Mirror) withTrashID(ctx context.Context, begin func(context.Context) error, op, id string,
	do func(t *folder) error) error {
	return m.call(ctx, begin, fmt.Sprintf("%s trash id %q", op, id), func() error {
		if err := blob.CheckTrashID(id); err != nil {
			return err
		}
		return m.inExisting(trashPath, recently(), func(h *cachedFolder) error { return do(h.folder) })
	})
}

// ListTrash implements blob.Mirror.
func (m *Mirror) ListTrash(ctx context.Context, fn func(blob.TrashInfo) error) error {
	if err := m.begin(ctx); err != nil {
		return fmt.Errorf("list trash: %w", err)
	}
	defer m.active.Done()
	t, err := m.folders.acquire(trashPath, recently(), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list trash: %w", classify(err))
	}
	defer m.folders.release(t)
	return eachName(ctx, t.folder, func(id string) error {
		fi, err := t.root.Lstat(id)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list trash: %w", classify(err))
		}
		i := infoOf("", fi)
		return fn(blob.TrashInfo{ID: id, Kind: i.Kind, Length: i.Length, ModTime: i.ModTime,
			Trashed: blob.TrashTime(id)})
	})
}

// eachName calls fn for every name in a folder, a chunk in memory at a time.
func eachName(ctx context.Context, f *folder, fn func(name string) error) error {
	list, err := f.root.Open(".") // not the shared handle: it has one position for all
	if err != nil {
		return classify(err)
	}
	defer list.Close()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		names, err := list.Readdirnames(chunk)
		for _, name := range names {
			if err := fn(name); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return classify(err)
		}
	}
}

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
	h, err := c.m.folders.acquire(above, time.Now(), nil) // not a folder that was removed meanwhile
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
