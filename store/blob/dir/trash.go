package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

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

// Trash implements blob.Mirror.
func (m *Mirror) Trash(ctx context.Context, items []blob.TrashItem) []error {
	return m.removeNames(ctx, "trash", len(items),
		func(i int) string { return items[i].Key },
		func(c *change, i int, h *cachedFolder, name string) error {
			if err := blob.CheckTrashID(items[i].ID); err != nil {
				return err
			}
			return c.inTrash(func(t *folder) error {
				err := renameNew(m.folders.top.folder, h.folder, name, t, items[i].ID)
				if err == nil {
					c.touchFirst(trashPath)
				}
				return asExists(err, items[i].ID)
			})
		})
}

// Restore implements blob.Mirror.
func (m *Mirror) Restore(ctx context.Context, id, key string) error {
	if err := m.beginWrite(ctx); err != nil {
		return keyError("restore", key, err)
	}
	defer m.active.Done()
	err := checkKey(key, blob.CheckKey)
	if err == nil {
		err = blob.CheckTrashID(id)
	}
	if err != nil {
		return keyError("restore", key, err)
	}
	c := m.newChange()
	if err = c.restore(id, key); err == nil {
		err = c.commit(1)
	}
	return keyError("restore", key, m.explain(err))
}

func (c *change) restore(id, key string) error {
	t, err := c.trash()
	if err != nil {
		return err
	}
	defer c.m.folders.release(t)
	info, err := t.root.Lstat(id)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: trash id %s", blob.ErrNotFound, id)
	}
	if err == nil && !info.Mode().IsRegular() {
		err = blob.ErrNotRegular
	}
	if err != nil {
		return err
	}
	path, name := split(key)
	err = c.inFolder(path, func(h *cachedFolder) error {
		err := renameNew(c.m.folders.top.folder, t.folder, id, h.folder, name)
		if errors.Is(err, fs.ErrExist) {
			return c.inTheWay(h, name)
		}
		return err
	})
	if err == nil {
		c.touchFirst(path)
		c.touch(trashPath)
	}
	return err
}

func (c *change) inTheWay(h *cachedFolder, name string) error {
	if info, err := h.root.Lstat(name); err == nil && info.IsDir() {
		return blob.ErrIsFolder
	}
	return blob.ErrExists
}

// OpenTrash implements blob.Mirror.
func (m *Mirror) OpenTrash(ctx context.Context, id string) (blob.File, blob.Info, error) {
	var file blob.File
	var info blob.Info
	err := m.withTrashID(ctx, id, func(t *folder) error {
		f, fi, err := openRegular(t, id)
		if err != nil {
			return err
		}
		file, info = f, infoOf("", fi)
		return nil
	})
	if err != nil {
		return nil, blob.Info{}, fmt.Errorf("open trash id %q: %w", id, classify(err))
	}
	return file, info, nil
}

// DropTrash implements blob.Mirror.
func (m *Mirror) DropTrash(ctx context.Context, id string) error {
	err := m.beginWrite(ctx)
	if err == nil {
		defer m.active.Done()
		err = m.withTrashID(ctx, id, func(t *folder) error { return removeFile(t, id) })
	}
	if err != nil {
		return fmt.Errorf("drop trash id %q: %w", id, classify(err))
	}
	return nil
}

// withTrashID runs a call on one id. A missing file is ErrNotFound.
func (m *Mirror) withTrashID(ctx context.Context, id string, do func(t *folder) error) error {
	if err := blob.CheckTrashID(id); err != nil {
		return err
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	defer m.active.Done()
	t, err := m.recentFolder(trashPath)
	if err != nil {
		return asNotFound(err)
	}
	defer m.folders.release(t)
	return asNotFound(do(t.folder))
}

// ListTrash implements blob.Mirror.
func (m *Mirror) ListTrash(ctx context.Context, fn func(blob.TrashInfo) error) error {
	if err := m.begin(ctx); err != nil {
		return fmt.Errorf("list trash: %w", err)
	}
	defer m.active.Done()
	t, err := m.recentFolder(trashPath)
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
