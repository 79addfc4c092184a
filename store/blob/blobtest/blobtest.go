// Package blobtest knows the contract of blob.Mirror as tests. It refuses to know any
// implementation: each one runs the whole suite and adds tests for what only it can meet.
package blobtest

import (
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/store/blob"
)

// Run runs the suite. open makes a new, empty, writable mirror and cleans it up (t.Cleanup); it
// must be callable from parallel tests.
func Run(t *testing.T, open func(t testing.TB) blob.Mirror) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, m blob.Mirror)
	}{
		{"stage is invisible", stageInvisible},
		{"spare stages", stageSpare},
		{"stage reset and length", stageReset},
		{"stage ends", stageEnds},
		{"place and read", placeAndRead},
		{"place replaces at once", placeReplaces},
		{"place large group", placeLargeGroup},
		{"place sets the time", placeModTime},
		{"place: one bad item", placeOneBad},
		{"place: same key twice", placeTwice},
		{"place displaces", placeDisplaces},
		{"place: file and folder clash", placeClash},
		{"keys are checked", keysChecked},
		{"reader keeps its version", readerKeeps},
		{"absent", absent},
		{"trash and restore", trashAndRestore},
		{"trash refuses", trashRefuses},
		{"drop and list trash", dropAndList},
		{"remove prunes", removePrunes},
		{"walk", walk},
		{"cancelled", cancelled},
		{"free and check", freeAndCheck},
		{"closed", closed},
		{"readers never see a torn file", torn},
		{"many at once", manyAtOnce},
		{"spool ends", spoolEnds},
		{"spool names", spoolNames},
		{"spools are apart", spoolApart},
		{"spools are listed", spoolsListed},
		{"readers of a spool", spoolReaders},
		{"one user of a spool", spoolOneUser},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, open(t))
		})
	}
}

// Model compares random calls with a model of the mirror. It makes many small calls: give it a
// mirror that need not be durable.
func Model(t *testing.T, m blob.Mirror) { model(t, m) }

// staged makes a stage that holds text.
func staged(t testing.TB, m blob.Mirror, text string) blob.Stage {
	t.Helper()
	s, err := m.NewStage(t.Context())
	if err != nil {
		t.Fatalf("NewStage: %v", err)
	}
	if n, err := io.WriteString(s, text); err != nil || n != len(text) {
		t.Fatalf("Write = %d, %v; want %d", n, err, len(text))
	}
	return s
}

// put places text under key.
func put(t testing.TB, m blob.Mirror, key, text string) {
	t.Helper()
	errs, err := m.Place(t.Context(), []blob.Placement{{Stage: staged(t, m, text), Key: key}})
	if err != nil || errs[0] != nil {
		t.Fatalf("Place %q: %v, %v", key, errs, err)
	}
}

// get reads what lies under key.
func get(t testing.TB, m blob.Mirror, key string) (string, error) {
	t.Helper()
	f, info, err := m.Open(t.Context(), key)
	if err != nil {
		return "", err
	}
	return slurp(t, f, info), nil
}

// slurp reads and closes a file and compares its length with its Info.
func slurp(t testing.TB, f blob.File, info blob.Info) string {
	t.Helper()
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatalf("read %q: %v", info.Key, err)
	}
	if int64(len(b)) != info.Length || info.Kind != blob.KindFile {
		t.Fatalf("read %d bytes of %+v", len(b), info)
	}
	return string(b)
}

// want fails unless key holds text.
func want(t testing.TB, m blob.Mirror, key, text string) {
	t.Helper()
	got, err := get(t, m, key)
	if err != nil {
		t.Fatalf("Open %q: %v", key, err)
	}
	if got != text {
		t.Fatalf("%q holds %q, want %q", key, got, text)
	}
}

// wantErr fails unless err has the cause.
func wantErr(t testing.TB, what string, err, cause error) {
	t.Helper()
	if !errors.Is(err, cause) {
		t.Fatalf("%s: %v, want %v", what, err, cause)
	}
}

// wantGone fails unless nothing lies under key.
func wantGone(t testing.TB, m blob.Mirror, key string) {
	t.Helper()
	_, err := m.Stat(t.Context(), key)
	wantErr(t, "Stat "+key, err, blob.ErrNotFound)
	_, _, err = m.Open(t.Context(), key)
	wantErr(t, "Open "+key, err, blob.ErrNotFound)
}

// tree is what Walk finds, with contents.
func tree(t testing.TB, m blob.Mirror) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := m.Walk(t.Context(), func(i blob.Info) error {
		if _, twice := all[i.Key]; twice {
			t.Errorf("Walk reports %q twice", i.Key)
		}
		all[i.Key] = i.Kind.String()
		return nil
	})
	if err != nil {
		t.Fatalf("Walk: %v", err)
	}
	for key := range all {
		text, err := get(t, m, key)
		if err != nil {
			t.Fatalf("Open %q: %v", key, err)
		}
		all[key] = text
	}
	return all
}

// trashed is what ListTrash finds, with contents.
func trashed(t testing.TB, m blob.Mirror) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := m.ListTrash(t.Context(), func(i blob.TrashInfo) error {
		f, info, err := m.OpenTrash(t.Context(), i.ID)
		if err != nil {
			return err
		}
		if info.Length != i.Length {
			t.Errorf("trash id %s: listed with %d bytes, opened with %d", i.ID, i.Length, info.Length)
		}
		all[i.ID] = slurp(t, f, info)
		return nil
	})
	if err != nil {
		t.Fatalf("ListTrash: %v", err)
	}
	return all
}

// same fails unless two maps are equal.
func same(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}
