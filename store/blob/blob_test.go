package blob

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"resyncd/destination/fuzztest"
)

func TestCheckKey(t *testing.T) {
	t.Parallel()
	for key, good := range map[string]bool{
		"a": true, "a/b": true, "host/%2E%2E/x": true, ".resyncd2": true, "a/.resyncd": true, "...": true, "a b": true,
		strings.Repeat("x", MaxKey): true, strings.Repeat("x", MaxKey+1): false,
		"": false, "/": false, "/a": false, "a/": false, "a//b": false, ".": false, "..": false, "a/..": false, "../a": false,
		"./a": false, "a/./b": false, "a\x00": false, ".resyncd": false, ".resyncd/state.db": false, ".RESYNCD/x": false,
	} {
		if err := CheckKey(key); (err == nil) != good || err != nil && !errors.Is(err, ErrKey) {
			t.Errorf("CheckKey(%.40q) = %v", key, err)
		}
	}
	if err := CheckForeignKey(strings.Repeat("x/", MaxKey) + "x"); err != nil {
		t.Errorf("a long foreign key: %v", err)
	}
}

// FuzzCheckKey: what passes is a path below the root for every other reader of paths, too.
func FuzzCheckKey(f *testing.F) {
	for _, key := range []string{"a/b", "../x", "a/../../b", "a\x00b", "/", "a//b", ".resyncd/x", "é/%41"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		fuzztest.Bound(t)
		if CheckKey(key) != nil {
			return
		}
		if len(key) > MaxKey || !filepath.IsLocal(key) || filepath.Clean(key) != key || key == "." || strings.Contains(key, "\x00") {
			t.Errorf("CheckKey lets %q pass", key)
		}
		if first, _, _ := strings.Cut(key, "/"); strings.EqualFold(first, Reserved) {
			t.Errorf("CheckKey lets the reserved name pass: %q", key)
		}
	})
}

func TestTrashID(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMilli(rapid.Int64Range(0, 1<<48-1).Draw(t, "ms"))
		id := NewTrashID(now)
		if err := CheckTrashID(id); err != nil {
			t.Fatal(err)
		}
		if got := TrashTime(id); !got.Equal(now) {
			t.Fatalf("TrashTime(%s) = %v, want %v", id, got, now)
		}
		later := now.Add(time.Duration(rapid.Int64Range(1, 1e6).Draw(t, "later")) * time.Millisecond)
		if later.UnixMilli() < 1<<48 && NewTrashID(later) <= id {
			t.Fatalf("ids do not sort by age")
		}
		if NewTrashID(now) == id {
			t.Fatalf("two equal ids")
		}
	})
	if id := NewTrashID(time.Unix(-5, 0)); !TrashTime(id).Equal(time.Unix(0, 0)) {
		t.Errorf("before 1970: %s", id)
	}
	for _, id := range []string{"", "a/b", "..", "a.b", "ä", "a b", "\x00", strings.Repeat("x", 65)} {
		if err := CheckTrashID(id); !errors.Is(err, ErrKey) {
			t.Errorf("CheckTrashID(%q) = %v", id, err)
		}
	}
	for _, id := range []string{"x", "ID-1_b", strings.Repeat("g", 32), strings.Repeat("A", 32)} {
		if err := CheckTrashID(id); err != nil || !TrashTime(id).IsZero() {
			t.Errorf("%q: %v, %v", id, err, TrashTime(id))
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, err := range []error{ErrNoSpace, ErrReadOnly, ErrIO, ErrSync, ErrBusy, ErrUnmarked} {
		if !Systemic(&KeyError{Op: "place", Key: "k", Err: fmt.Errorf("%w: %w", err, fs.ErrInvalid)}) {
			t.Errorf("%v is not systemic", err)
		}
	}
	for _, err := range []error{nil, ErrKey, ErrNotFound, ErrExists, ErrNotRegular, ErrIsFolder, ErrParentNotFolder, ErrStage, fs.ErrPermission} {
		if Systemic(err) {
			t.Errorf("%v is systemic", err)
		}
	}
	for want, err := range map[string]error{
		`place "a/b": unusable key`:                     &KeyError{Op: "place", Key: "a/b", Err: ErrKey},
		`open "a/b\n" at "a": a parent is not a folder`: &KeyError{Op: "open", Key: "a/b\n", At: "a", Err: ErrParentNotFolder},
		`".resyncd": a parent is not a folder`:          &KeyError{At: ".resyncd", Err: ErrParentNotFolder},
		`stat "a": a parent is not a folder`:            &KeyError{Op: "stat", Key: "a", At: "a", Err: ErrParentNotFolder},
	} {
		if err.Error() != want {
			t.Errorf("%s, want %s", err, want)
		}
	}
}
