package sync

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"

	"resyncd/destination/peer/source"
	"resyncd/sync/keymap"
)

// reject refuses the held removals.
func (r *rig) reject(want int64) {
	r.t.Helper()
	r.with(func(e *Engine, target Target) {
		if done, err := e.Approve(context.Background(), target, true); err != nil || !done.Rejected || done.Resources != want {
			r.t.Errorf("reject: %+v, %v", done, err)
		}
	})
}

// lessened is a Source whose Resource List, all that it has, left out 20 of 60 resources: their removal is held.
func lessened(t *testing.T) *rig {
	t.Helper()
	r := newRigIn(t, ramDir(t), source.Options{}, many(60))
	r.interpose(hideChangeList(r))
	r.must()
	for name := range many(60) {
		if strings.HasPrefix(name, "d0/") {
			r.src.Delete(name)
		}
	}
	if res, err := r.run(); err != nil || res.Held != 20 {
		t.Fatalf("%+v, %v", res, err)
	}
	return r
}

// TestRejectLaterList: a removal that was held for one list, and that the next confirmed, is rejected for both: read again,
// neither says anything, and one that comes after is held again (P5).
func TestRejectLaterList(t *testing.T) {
	t.Parallel()
	r := lessened(t)
	r.put("new", "later")
	if res, err := r.run(); err != nil || res.Held != 20 {
		t.Fatalf("%+v, %v", res, err)
	}
	r.reject(20)
	r.opts.Full = true
	if res, err := r.run(); err != nil || res.Held != 0 || res.Deleted != 0 {
		t.Errorf("the list read again: %+v, %v", res, err)
	}
	r.put("newer", "later still")
	if res, err := r.run(); err != nil || res.Held != 20 || res.Deleted != 0 {
		t.Errorf("another list: %+v, %v", res, err)
	}
	if n := len(r.files()); n != 62 {
		t.Errorf("%d files, want 62", n)
	}
}

// TestRejectForgetsNothing: what one set owes is owed still when a removal by another set is rejected.
func TestRejectForgetsNothing(t *testing.T) {
	t.Parallel()
	entries := func(n int) func(f *fake) []string {
		return func(f *fake) []string { return f.numbered(0, n) }
	}
	f := twoSets(t, entries(30), entries(30))
	f.capabilities("/two.xml", "resourcelist", "/two-rl.xml")
	f.both(true)
	f.page("/two-rl.xml", list("resourcelist", `at="`+when(20)+`"`, entries(2)(f)...))
	f.changes("one", f.entry("/r029", `change="updated" datetime="`+when(30)+`" `+fixity("body 29 v2")))
	if one, two := f.both(false); one.Owed != 1 || two.Held != 28 { // the Source still serves the old one
		t.Fatalf("%+v, %+v", one, two)
	}
	f.reject(28)
	f.page("/r029", "body 29 v2")
	f.both(true)
	key, err := keymap.NaturalKey(f.uri("/r029"))
	if sum := f.files()[key]; err != nil || sum != fmt.Sprintf("%x", sha256.Sum256([]byte("body 29 v2"))) {
		t.Errorf("in step, and /r029 is not what set one wants: %s, %v", sum, err)
	}
}

// TestRejectAfterLoss: the file of a held removal was lost; once the removal is rejected it is fetched again.
func TestRejectAfterLoss(t *testing.T) {
	t.Parallel()
	r := lessened(t)
	if err := os.Remove(r.path("d0/r000.txt")); err != nil {
		t.Fatal(err)
	}
	r.with(func(e *Engine, target Target) {
		if _, err := e.Verify(context.Background(), target, r.opts, true, func(Finding) error { return nil }); err != nil {
			t.Error(err)
		}
	})
	r.reject(20)
	for name, body := range many(60) { // the list was a mistake
		if strings.HasPrefix(name, "d0/") {
			r.put(name, body)
		}
	}
	r.must()
}
