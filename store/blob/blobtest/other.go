package blobtest

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"resyncd/store/blob"
)

func readerKeeps(t *testing.T, m blob.Mirror) {
	put(t, m, "k", "first version")
	f, info, err := m.Open(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 5)
	if _, err := io.ReadFull(f, head); err != nil {
		t.Fatal(err)
	}
	put(t, m, "k", "2nd")
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if got := slurp(t, f, info); got != "first version" {
		t.Errorf("the open reader got %q", got)
	}
	want(t, m, "k", "2nd")
}

func absent(t *testing.T, m blob.Mirror) {
	put(t, m, "file", "x")
	for _, key := range []string{"none", "no/such/folder/x", "file/below", "file/below/more"} {
		wantGone(t, m, key)
		wantErr(t, "Remove "+key, m.Remove(t.Context(), []string{key})[0], blob.ErrNotFound)
		wantErr(t, "Trash "+key, m.Trash(t.Context(), []blob.TrashItem{{Key: key, ID: "id"}})[0], blob.ErrNotFound)
	}
	wantErr(t, "Restore", m.Restore(t.Context(), "nosuchid", "k"), blob.ErrNotFound)
	wantErr(t, "DropTrash", m.DropTrash(t.Context(), "nosuchid"), blob.ErrNotFound)
	_, _, err := m.OpenTrash(t.Context(), "nosuchid")
	wantErr(t, "OpenTrash", err, blob.ErrNotFound)
	if blob.Systemic(err) {
		t.Errorf("a missing file is called systemic: %v", err)
	}
	same(t, "files", tree(t, m), map[string]string{"file": "x"})
}

func trashAndRestore(t *testing.T, m blob.Mirror) {
	put(t, m, "a/b/c", "precious")
	put(t, m, "a/d", "other")
	before, after := time.Now().Truncate(time.Millisecond), time.Time{}
	id := blob.NewTrashID(time.Now())
	after = time.Now()
	if errs := m.Trash(t.Context(), []blob.TrashItem{{Key: "a/b/c", ID: id}}); errs[0] != nil {
		t.Fatal(errs)
	}
	wantGone(t, m, "a/b/c")
	same(t, "files", tree(t, m), map[string]string{"a/d": "other"})
	same(t, "trash", trashed(t, m), map[string]string{id: "precious"})
	m.ListTrash(t.Context(), func(i blob.TrashInfo) error {
		if i.Trashed.Before(before) || i.Trashed.After(after) || i.Kind != blob.KindFile {
			t.Errorf("TrashInfo = %+v", i)
		}
		return nil
	})
	// The folder a/b was emptied and may be used as a file's name now; then restore cannot have it back.
	wantErr(t, "Restore onto a file", m.Restore(t.Context(), id, "a/d"), blob.ErrExists)
	if err := m.Restore(t.Context(), id, "a/b/c"); err != nil {
		t.Fatal(err)
	}
	want(t, m, "a/b/c", "precious")
	same(t, "trash", trashed(t, m), map[string]string{})
	wantErr(t, "Restore twice", m.Restore(t.Context(), id, "x"), blob.ErrNotFound)
}

func trashRefuses(t *testing.T, m blob.Mirror) {
	put(t, m, "a/b", "1")
	put(t, m, "c", "2")
	put(t, m, "d", "3")
	errs := m.Trash(t.Context(), []blob.TrashItem{
		{Key: "a", ID: "id-0"}, {Key: "c", ID: "id-1"}, {Key: "d", ID: "id-1"},
		{Key: "d", ID: ""}, {Key: "d", ID: "a/b"}, {Key: "none", ID: "id-2"},
	})
	for i, cause := range []error{nil, nil, blob.ErrExists, blob.ErrKey, blob.ErrKey, blob.ErrNotFound} {
		if cause != nil {
			wantErr(t, "Trash", errs[i], cause)
		}
	}
	// A store without folders finds nothing under "a".
	if !errors.Is(errs[0], blob.ErrIsFolder) && !errors.Is(errs[0], blob.ErrNotFound) {
		t.Errorf("Trash of a folder: %v", errs[0])
	}
	if errs[1] != nil {
		t.Fatal(errs[1])
	}
	same(t, "files", tree(t, m), map[string]string{"a/b": "1", "d": "3"})
	same(t, "trash", trashed(t, m), map[string]string{"id-1": "2"})
}

func dropAndList(t *testing.T, m blob.Mirror) {
	var items []blob.TrashItem
	for _, k := range []string{"a", "b", "c"} {
		put(t, m, k, k)
		items = append(items, blob.TrashItem{Key: k, ID: "id_" + k})
	}
	for _, err := range m.Trash(t.Context(), items) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := m.DropTrash(t.Context(), "id_b"); err != nil {
		t.Fatal(err)
	}
	same(t, "trash", trashed(t, m), map[string]string{"id_a": "a", "id_c": "c"})
	stop := errors.New("enough")
	calls := 0
	err := m.ListTrash(t.Context(), func(blob.TrashInfo) error { calls++; return stop })
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("ListTrash: %v after %d calls", err, calls)
	}
}

func removePrunes(t *testing.T, m blob.Mirror) {
	put(t, m, "a/b/c/d", "1")
	put(t, m, "a/x", "2")
	put(t, m, "top", "3")
	errs := m.Remove(t.Context(), []string{"a/b/c/d", "none", "top"})
	if errs[0] != nil || errs[2] != nil {
		t.Fatal(errs)
	}
	wantErr(t, "Remove none", errs[1], blob.ErrNotFound)
	same(t, "files", tree(t, m), map[string]string{"a/x": "2"})
	// The emptied folder is gone: its name is free for a file. And for a folder again.
	put(t, m, "a/b", "a file now")
	if errs := m.Remove(t.Context(), []string{"a/b", "a/x"}); errs[0] != nil || errs[1] != nil {
		t.Fatal(errs)
	}
	put(t, m, "a/b/c/d", "again")
	same(t, "files", tree(t, m), map[string]string{"a/b/c/d": "again"})
	same(t, "trash", trashed(t, m), map[string]string{})
}

func walk(t *testing.T, m blob.Mirror) {
	put(t, m, "a/b", "12345")
	put(t, m, "c", "")
	got := map[string]int64{}
	if err := m.Walk(t.Context(), func(i blob.Info) error {
		stat, err := m.Stat(t.Context(), i.Key)
		if err != nil || stat != i {
			t.Errorf("Stat = %+v, %v; Walk = %+v", stat, err, i)
		}
		got[i.Key] = i.Length
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got["a/b"] != 5 || got["c"] != 0 {
		t.Errorf("Walk found %v", got)
	}
	stop := errors.New("enough")
	calls := 0
	err := m.Walk(t.Context(), func(blob.Info) error { calls++; return stop })
	if err != stop || calls != 1 {
		t.Errorf("Walk: %v after %d calls", err, calls)
	}
}

func cancelled(t *testing.T, m blob.Mirror) {
	put(t, m, "k", "1")
	s := staged(t, m, "2")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errs, err := m.Place(ctx, []blob.Placement{{Stage: s, Key: "k"}})
	wantErr(t, "Place", errs[0], context.Canceled)
	wantErr(t, "Place, group", err, context.Canceled)
	wantErr(t, "Remove", m.Remove(ctx, []string{"k"})[0], context.Canceled)
	wantErr(t, "Trash", m.Trash(ctx, []blob.TrashItem{{Key: "k", ID: "id"}})[0], context.Canceled)
	wantErr(t, "Walk", m.Walk(ctx, func(blob.Info) error { return nil }), context.Canceled)
	_, err = m.NewStage(ctx)
	wantErr(t, "NewStage", err, context.Canceled)
	want(t, m, "k", "1")
	// The stage is still good.
	if errs, err := m.Place(t.Context(), []blob.Placement{{Stage: s, Key: "k"}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	want(t, m, "k", "2")
}

func freeAndCheck(t *testing.T, m blob.Mirror) {
	bytes, inodes, err := m.Free(t.Context())
	if err != nil || bytes == 0 || inodes == 0 {
		t.Errorf("Free = %d, %d, %v", bytes, inodes, err)
	}
	if err := m.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
	put(t, m, "probe", "x")
	_, err = m.Stat(t.Context(), "PROBE")
	if folds := err == nil; folds != m.FoldsCase() {
		t.Errorf("FoldsCase = %v, but Stat of the other case: %v", m.FoldsCase(), err)
	}
}

func closed(t *testing.T, m blob.Mirror) {
	s := staged(t, m, "left behind")
	for range 2 {
		if err := m.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	if err := s.Discard(); err != nil {
		t.Errorf("Discard after Close: %v", err)
	}
	if _, err := m.NewStage(t.Context()); err == nil {
		t.Error("NewStage after Close works")
	}
	if _, err := m.Stat(t.Context(), "k"); err == nil || errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Stat after Close: %v", err)
	}
	if errs, err := m.Place(t.Context(), []blob.Placement{{Stage: s, Key: "k"}}); err == nil || errs[0] == nil {
		t.Errorf("Place after Close: %v, %v", errs, err)
	}
	if errs := m.Remove(t.Context(), []string{"k"}); errs[0] == nil || errors.Is(errs[0], blob.ErrNotFound) {
		t.Errorf("Remove after Close: %v", errs)
	}
}
