package sqlite

import (
	"encoding/binary"
	"errors"
	"maps"
	"path/filepath"
	"testing"

	"resyncd/store"
)

// TestFeedRead: contents and edits are read without a trace, beside a writer too, and are in a copy.
func TestFeedRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	f := newFilled(t, path)
	c := store.Commit{Claim: f.claim, Edits: []store.Edit{{URI: "record", Body: []byte("e")}}, Resources: []store.ResourceChange{{URI: "u", Content: []byte("x")}}}
	if err := f.s.Commit(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	check := func(path string) {
		t.Helper()
		r, err := Open(t.Context(), path, Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		body, err := r.Content(t.Context(), c.Resources[0].ID)
		edits, err2 := r.Edits(t.Context(), f.claim.SourceID, "record")
		if err := errors.Join(err, err2); err != nil || string(body) != "x" || len(edits) != 1 || string(edits[0].Body) != "e" {
			t.Errorf("%q, %v, %v", body, edits, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	check(path)
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := Snapshot(t.Context(), path, copied); err != nil {
		t.Fatal(err)
	}
	check(copied)
	if err := f.s.Close(); err != nil {
		t.Fatal(err)
	}
	before := folder(t, dir)
	check(path)
	if after := folder(t, dir); !maps.Equal(before, after) {
		t.Errorf("reading left a trace: %v, %v", before, after)
	}
}

// TestDamagedEdit: a digest that is none is told apart from an edit that is not there.
func TestDamagedEdit(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	if err := f.s.Commit(t.Context(), &store.Commit{Claim: f.claim, Edits: []store.Edit{{URI: "u"}}}); err != nil {
		t.Fatal(err)
	}
	if err := execute(t, f.s, "UPDATE edit SET digest = x'00'"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.s.Edits(t.Context(), f.claim.SourceID, "u"); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a damaged edit: %v", err)
	}
}

// entries is a commit of n entries of a feed with their contents, and of an edit of one of 500 records with each.
func (f *filled) entries(n int) *store.Commit {
	c := &store.Commit{Claim: f.claim}
	for range n {
		u := benchURI(f.n)
		e := store.Edit{URI: benchURI(f.n % 500), Observed: store.Micros(f.n), Author: "https://lib.example.org/", Body: make([]byte, 300), Evidence: "push"}
		binary.LittleEndian.PutUint64(e.Digest[:], uint64(f.n)*0x9e3779b97f4a7c15) // as well spread as a hash
		c.Edits = append(c.Edits, e)
		c.Resources = append(c.Resources, store.ResourceChange{URI: u, Key: u[8:], Content: make([]byte, 2000), Work: &store.Work{Action: store.ActionFetch},
			Want: &store.Want{SetID: f.set.ID, State: store.WantPresent, Inline: true, Meta: `{"title":"An entry","author":"somebody"}`}})
		f.n++
	}
	return c
}

func BenchmarkCommitEntries(b *testing.B) {
	f := newFilled(b, filepath.Join(b.TempDir(), "state.db"))
	for b.Loop() {
		if err := f.s.Commit(b.Context(), f.entries(batch)); err != nil {
			b.Fatal(err)
		}
	}
	rate(b, f.n)
}

func BenchmarkEditsOf(b *testing.B) {
	f := newFilled(b, filepath.Join(b.TempDir(), "state.db"))
	for range 5 { // 20 edits of each record
		if err := f.s.Commit(b.Context(), f.entries(batch)); err != nil {
			b.Fatal(err)
		}
	}
	uris := make([]string, 500)
	for i := range uris {
		uris[i] = benchURI(i)
	}
	b.ReportAllocs()
	rows := 0
	for b.Loop() {
		found, err := f.s.EditsOf(b.Context(), f.claim.SourceID, uris)
		if err != nil {
			b.Fatal(err)
		}
		for _, es := range found {
			rows += len(es)
		}
	}
	rate(b, rows)
}
