package sync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"resyncd/destination/peer/source"
	"resyncd/sync/report"
	"resyncd/sync/transfer"
)

// loseState makes the mirror one whose state database was lost.
func (r *rig) loseState() {
	r.t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(r.db + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.t.Fatal(err)
		}
	}
}

// planned is what a dry run names, in its own state: action, URI or else key.
func (r *rig) planned() (out []string) {
	r.t.Helper()
	db, opts := r.db, r.opts
	r.db += ".dry"
	defer func() { r.loseState(); r.db, r.opts = db, opts }()
	r.opts.Plan = func(p Planned) error {
		name := p.URI
		if name == "" {
			name = p.Key
		}
		out = append(out, p.Action+" "+name)
		return nil
	}
	if _, err := r.run(); err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// trash is what `ls --trash` shows, by key.
func (r *rig) trash() map[string]report.Listing {
	r.t.Helper()
	out := map[string]report.Listing{}
	r.with(func(e *Engine, target Target) {
		src, err := e.Store.Source(context.Background(), target.Name)
		if err == nil {
			err = report.List(context.Background(), e.Store, src.ID, report.ListTrash, func(l report.Listing) error { out[*l.Key] = l; return nil })
		}
		if err != nil {
			r.t.Fatal(err)
		}
	})
	return out
}

func (r *rig) restore(name string) {
	r.t.Helper()
	r.with(func(e *Engine, target Target) {
		if _, err := e.Restore(context.Background(), target, name); err != nil {
			r.t.Errorf("restore %s: %v", name, err)
		}
	})
}

// TestSweepIsTold: what is swept after the loss of the state is named by a dry run, counted as deleted, known by its URI in the
// trash, and comes back from there to stay, also what was never the Source's.
func TestSweepIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{}, many(20))
	r.put("a:b", "in a key that two URIs have")
	r.must()
	r.loseState()
	gone, kept := r.src.URI("d0/r000.txt"), r.path("d0/r000.txt")
	r.src.Delete("d0/r000.txt")
	r.src.Delete("a:b")
	two, err := filepath.Rel(r.root, r.path("a:b"))
	if err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(r.root, "note.txt")
	write(t, note, "the operator's")

	want := []string{"delete " + filepath.ToSlash(two), "delete " + gone, "delete note.txt"}
	if got := r.planned(); !slices.Equal(got, want) {
		t.Errorf("a dry run names %q, want %q", got, want)
	}
	if res := r.must(); res.Deleted != 3 || res.Fetched != 0 || res.Unchanged != 19 {
		t.Errorf("%+v", res)
	}
	trash := r.trash()
	if len(trash) != 3 || trash["note.txt"].URI != "" || trash[filepath.ToSlash(two)].URI != "" {
		t.Errorf("%+v", trash)
	}
	r.restore(gone)
	r.restore("note.txt")
	r.restore(filepath.ToSlash(two))
	stay := func() {
		t.Helper()
		for _, path := range []string{kept, note, r.path("a:b")} {
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
		}
	}
	r.opts.Full = true
	r.tune = func(target *Target) { target.SweepExtra = true } // as if one had been put off
	if res, err := r.run(); err != nil || !res.InStep || res.Deleted != 0 {
		t.Errorf("%+v, %v", res, err)
	}
	stay()
	r.tune = nil
	r.with(func(e *Engine, target Target) {
		rep, err := e.Verify(t.Context(), target, r.opts, true, func(f Finding) error { return fmt.Errorf("%+v", f) })
		if err != nil || rep.Checked != 22 {
			t.Errorf("%+v, %v", rep, err)
		}
	})
	stay()
	r.put("d0/r000.txt", "anew")
	if res, err := r.run(); err != nil || !res.InStep {
		t.Errorf("%+v, %v", res, err)
	}
	r.equalBut("note.txt", filepath.ToSlash(two))
	r.with(func(e *Engine, target Target) {
		if err := e.Forget(t.Context(), target, true); err != nil {
			t.Error(err)
		}
	})
	if left := r.files(); len(left) != 2 {
		t.Errorf("files of others go with the Source's: %v", left)
	}
}

// TestSweepGuardsPlan: a dry run has the sweep guard count what it would fetch as the real one does, and stops where that does.
func TestSweepGuardsPlan(t *testing.T) {
	t.Parallel()
	for extras, want := range map[int]int{12: 12, 40: 0} {
		r := newRig(t, source.Options{}, many(60))
		r.must()
		r.loseState()
		for i := range extras {
			write(t, filepath.Join(r.root, fmt.Sprintf("mine/%02d", i)), "mine")
		}
		if err := os.Remove(r.path("d0/r000.txt")); err != nil { // so that there is something to fetch
			t.Fatal(err)
		}
		planned := r.planned()
		deletes := len(slices.DeleteFunc(planned, func(s string) bool { return !strings.HasPrefix(s, "delete") }))
		res, err := r.run()
		if err != nil || !res.InStep || res.Deleted != int64(want) || deletes != want {
			t.Errorf("%d planned, %+v, %v", deletes, res, err)
		}
	}
}

// TestSweepKeeps: where files of deleted resources are kept, those that were kept before the state was lost are among the ones
// that no list names.
func TestSweepKeeps(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{}, many(20))
	r.tune = func(target *Target) { target.Delete = transfer.DeleteKeep }
	keeps := func() {
		t.Helper()
		if res, err := r.run(); err != nil || !res.InStep || res.Deleted != 0 {
			t.Errorf("%+v, %v", res, err)
		}
		if n := len(r.files()); n != 20 {
			t.Errorf("%d files", n)
		}
	}
	r.must()
	r.src.Delete("d0/r000.txt")
	keeps()
	r.loseState()
	if got, want := r.planned(), []string{"keep " + r.src.URI("d0/r000.txt")}; !slices.Equal(got, want) {
		t.Errorf("a dry run names %q, want %q", got, want)
	}
	keeps()
	if trash := r.trash(); len(trash) != 0 {
		t.Errorf("%+v", trash)
	}
}

// TestSweepSparesOwed: the file of a resource that is listed, but cannot be fetched just now, is nobody's to sweep.
func TestSweepSparesOwed(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{}, many(20))
	r.must()
	r.loseState()
	r.put("d0/r000.txt", "changed")
	r.interpose(failing("/d0/r000.txt"))
	if res, err := r.run(); err != nil || res.Owed != 1 || res.Deleted != 0 {
		t.Errorf("%+v, %v", res, err)
	}
	if n := len(r.files()); n != 20 {
		t.Errorf("%d files", n)
	}
	r.interpose(nil)
	r.must()
	l, ok := r.trash()[strings.TrimPrefix(filepath.ToSlash(r.path("d0/r000.txt")), filepath.ToSlash(r.root)+"/")]
	if !ok || l.URI != r.src.URI("d0/r000.txt") {
		t.Errorf("what was in the way: %+v", l)
	}
}

// TestFoldedOwedIsSpared: on a disk that ignores letter case the file of a resource that is owed is nobody's to sweep either,
// nor an extra one (F82).
func TestFoldedOwedIsSpared(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{}, map[string]string{"Readme": "1", "a": "2", "b": "3"})
	r.tune = func(t *Target) { t.Mirror = foldingMirror{t.Mirror} }
	r.must()
	r.loseState()
	r.put("Readme", "changed")
	r.interpose(failing("/Readme"))
	if res, err := r.run(); err != nil || res.Owed != 1 || res.Deleted != 0 || len(r.files()) != 3 {
		t.Errorf("%+v, %v, %d files", res, err, len(r.files()))
	}
	r.with(func(e *Engine, target Target) {
		_, err := e.Verify(t.Context(), target, r.opts, false, func(f Finding) error { return fmt.Errorf("found %+v", f) })
		if err != nil {
			t.Error(err)
		}
	})
}
