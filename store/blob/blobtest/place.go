package blobtest

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"resyncd/store/blob"
)

func placeAndRead(t *testing.T, m blob.Mirror) {
	files := map[string]string{
		"host/a":             "one",
		"host/b/c/d/e":       "two",
		"host/%25/~odd,(=)@": "three",
		"empty":              "",
		strings.Repeat("s", 200) + "/" + strings.Repeat("t", 200): "long segments",
		strings.Repeat("0123456/", 127) + "01234567":              "the longest key",
	}
	var group []blob.Placement
	for key, text := range files {
		group = append(group, blob.Placement{Stage: staged(t, m, text), Key: key})
	}
	errs, err := m.Place(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if err != nil {
			t.Errorf("Place %q: %v", group[i].Key, err)
		}
	}
	same(t, "files", tree(t, m), files)
	f, info, err := m.Open(t.Context(), "host/a")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info.Key != "host/a" || info.Length != 3 {
		t.Errorf("Info = %+v", info)
	}
	if _, err := f.Seek(1, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(f); string(rest) != "ne" {
		t.Errorf("after Seek: %q", rest)
	}
	if errs, err := m.Place(t.Context(), nil); len(errs) != 0 || err != nil {
		t.Errorf("Place of nothing: %v, %v", errs, err)
	}
}

func placeReplaces(t *testing.T, m blob.Mirror) {
	put(t, m, "d/k", "old version, longer")
	put(t, m, "d/k", "new")
	want(t, m, "d/k", "new")
	same(t, "trash", trashed(t, m), map[string]string{})
}

func placeLargeGroup(t *testing.T, m blob.Mirror) {
	const n = 100
	wanted := map[string]string{}
	var group []blob.Placement
	for i := range n {
		key, text := fmt.Sprintf("h/%d/%d", i%7, i), strings.Repeat("x", i)
		s := staged(t, m, text)
		if i%3 > 0 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		wanted[key] = text
		group = append(group, blob.Placement{Stage: s, Key: key})
	}
	errs, err := m.Place(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if err != nil {
			t.Fatalf("item %d: %v", i, err)
		}
	}
	same(t, "files", tree(t, m), wanted)
}

func placeModTime(t *testing.T, m blob.Mirror) {
	when := time.Date(2011, 12, 13, 14, 15, 16, 0, time.UTC)
	var group []blob.Placement
	for i, closed := range []bool{false, true} {
		s := staged(t, m, "x")
		s.SetModTime(when)
		if closed {
			s.Close()
		}
		group = append(group, blob.Placement{Stage: s, Key: fmt.Sprint(i)})
	}
	if errs, err := m.Place(t.Context(), group); err != nil || errs[0] != nil || errs[1] != nil {
		t.Fatal(errs, err)
	}
	for _, key := range []string{"0", "1"} {
		info, err := m.Stat(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Unix(0, info.ModTime).UTC(); !got.Equal(when) {
			t.Errorf("%s: modification time %v, want %v", key, got, when)
		}
	}
}

func placeOneBad(t *testing.T, m blob.Mirror) {
	put(t, m, "file", "a file")
	group := []blob.Placement{
		{Stage: staged(t, m, "1"), Key: "good/1"},
		{Stage: staged(t, m, "2"), Key: "../bad"},
		{Stage: staged(t, m, "3"), Key: "file/below"},
		{Stage: staged(t, m, "4"), Key: "good/4"},
	}
	errs, err := m.Place(t.Context(), group)
	if err != nil {
		t.Fatalf("one bad item is not the group's error: %v", err)
	}
	wantErr(t, "bad key", errs[1], blob.ErrKey)
	wantErr(t, "file as folder", errs[2], blob.ErrParentNotFolder)
	if errs[0] != nil || errs[3] != nil {
		t.Fatal(errs)
	}
	same(t, "files", tree(t, m), map[string]string{"good/1": "1", "good/4": "4", "file": "a file"})
	// The stage is still the caller's: another key, another try.
	group[2].Key = "file%x/below"
	if errs, err := m.Place(t.Context(), group[2:3]); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	want(t, m, "file%x/below", "3")
	if err := group[1].Stage.Discard(); err != nil {
		t.Fatal(err)
	}
}

func placeTwice(t *testing.T, m blob.Mirror) {
	s := staged(t, m, "same stage")
	errs, err := m.Place(t.Context(), []blob.Placement{
		{Stage: staged(t, m, "earlier"), Key: "k"}, {Stage: staged(t, m, "later"), Key: "k"},
		{Stage: s, Key: "s1"}, {Stage: s, Key: "s2"},
	})
	if err != nil || errs[0] != nil || errs[1] != nil || errs[2] != nil {
		t.Fatal(errs, err)
	}
	wantErr(t, "one stage for two keys", errs[3], blob.ErrStage)
	same(t, "files", tree(t, m), map[string]string{"k": "later", "s1": "same stage"})
}

func placeDisplaces(t *testing.T, m blob.Mirror) {
	put(t, m, "k", "somebody's")
	id, unused := blob.NewTrashID(time.Now()), blob.NewTrashID(time.Now())
	group := []blob.Placement{
		{Stage: staged(t, m, "ours"), Key: "k", Displace: id},
		{Stage: staged(t, m, "free"), Key: "l", Displace: unused},
		{Stage: staged(t, m, "bad"), Key: "n", Displace: "../x"},
	}
	errs, err := m.Place(t.Context(), group)
	if err != nil || errs[0] != nil || errs[1] != nil {
		t.Fatal(errs, err)
	}
	wantErr(t, "bad trash id", errs[2], blob.ErrKey)
	if !group[0].Displaced || group[1].Displaced || group[2].Displaced {
		t.Errorf("Displaced = %v, %v, %v", group[0].Displaced, group[1].Displaced, group[2].Displaced)
	}
	same(t, "files", tree(t, m), map[string]string{"k": "ours", "l": "free"})
	same(t, "trash", trashed(t, m), map[string]string{id: "somebody's"})

	// A taken id moves nothing.
	s := staged(t, m, "third")
	errs, _ = m.Place(t.Context(), []blob.Placement{{Stage: s, Key: "k", Displace: id}})
	wantErr(t, "taken trash id", errs[0], blob.ErrExists)
	want(t, m, "k", "ours")
	same(t, "trash", trashed(t, m), map[string]string{id: "somebody's"})
}

// placeClash: a file where a folder is needed and the other way round. A store without folders may hold both.
func placeClash(t *testing.T, m blob.Mirror) {
	put(t, m, "a/b/c", "deep")
	id := blob.NewTrashID(time.Now())
	for _, p := range []blob.Placement{{Key: "a/b"}, {Key: "a/b", Displace: id}, {Key: "a"}} {
		p.Stage = staged(t, m, "flat")
		errs, err := m.Place(t.Context(), []blob.Placement{p})
		if err != nil {
			t.Fatal(err)
		}
		if errs[0] != nil {
			wantErr(t, "Place on a folder", errs[0], blob.ErrIsFolder)
		}
	}
	want(t, m, "a/b/c", "deep")
}

func keysChecked(t *testing.T, m blob.Mirror) {
	put(t, m, "ok", "1")
	id := blob.NewTrashID(time.Now())
	if errs := m.Trash(t.Context(), []blob.TrashItem{{Key: "ok", ID: id}}); errs[0] != nil {
		t.Fatal(errs)
	}
	for _, key := range []string{
		"", ".", "..", "/", "/abs", "a/", "a//b", "./a", "a/./b", "../a", "a/../b", "a/..", "a\x00b",
		blob.Reserved, blob.Reserved + "/root", ".ResyncD/x", blob.Reserved + "/../k",
	} {
		errs, _ := m.Place(t.Context(), []blob.Placement{{Stage: staged(t, m, "x"), Key: key}})
		wantErr(t, fmt.Sprintf("Place %q", key), errs[0], blob.ErrKey)
		_, err := m.Stat(t.Context(), key)
		wantErr(t, fmt.Sprintf("Stat %q", key), err, blob.ErrKey)
		_, _, err = m.Open(t.Context(), key)
		wantErr(t, fmt.Sprintf("Open %q", key), err, blob.ErrKey)
		wantErr(t, fmt.Sprintf("Remove %q", key), m.Remove(t.Context(), []string{key})[0], blob.ErrKey)
		wantErr(t, fmt.Sprintf("Trash %q", key), m.Trash(t.Context(), []blob.TrashItem{{Key: key, ID: "i"}})[0],
			blob.ErrKey)
		wantErr(t, fmt.Sprintf("Restore %q", key), m.Restore(t.Context(), id, key), blob.ErrKey)
	}
	long := strings.Repeat("0123456/", 128) + "x"
	errs, _ := m.Place(t.Context(), []blob.Placement{{Stage: staged(t, m, "x"), Key: long}})
	wantErr(t, "Place a long key", errs[0], blob.ErrKey)
	wantErr(t, "Restore to a long key", m.Restore(t.Context(), id, long), blob.ErrKey)
	_, err := m.Stat(t.Context(), long)
	wantErr(t, "Stat a long key", err, blob.ErrNotFound)
	same(t, "files", tree(t, m), map[string]string{})
}
