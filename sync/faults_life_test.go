package sync

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/store/blob"
	"resyncd/sync/inspect"
	"resyncd/sync/keymap"
	"resyncd/sync/report"
)

// TestOnlyDumps: a Source that offers nothing but dumps is told of as one that cannot be mirrored where they are off (F70, F77),
// and where no package can be read; what was mirrored of it before stays.
func TestOnlyDumps(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a")))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`))
	f.one(true)
	f.set("resourcedump", "/dump.xml", "changedump", "/changes.xml")
	f.page("/dump.xml", list("resourcedump", `at="`+when(9)+`"`, f.entry("/dump.zip", `type="application/zip"`)))
	f.page("/changes.xml", list("changedump", `from="`+when(9)+`"`, f.entry("/changes.zip", `type="application/zip"`)))
	for _, dumps := range []string{"off", "auto"} {
		f.tune = func(t *Target) { t.Dumps = dumps }
		for range 2 {
			if res := f.one(false); res.Problem == "" || res.Deleted != 0 || res.Fetched != 0 {
				t.Errorf("%+v", res)
			}
		}
		f.holds(map[string]string{"/a": "a"})
	}
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.one(true)
}

// TestNewSetIsFollowed: where the operator names no sets, one that the Source Description lists later is followed (F72).
func TestNewSetIsFollowed(t *testing.T) {
	t.Parallel()
	f := twoSets(t, func(f *fake) []string { return []string{f.res("/a", "a")} }, func(f *fake) []string { return []string{f.res("/b", "b")} })
	f.description("/one.xml")
	if rs := f.all(); len(rs) != 1 || !rs[0].InStep {
		t.Fatalf("%+v", rs)
	}
	f.holds(map[string]string{"/a": "a"})
	f.description("/one.xml", "/two.xml")
	if _, two := f.both(true); two.Kind != "baseline" || two.Fetched != 1 {
		t.Errorf("%+v", two)
	}
	f.holds(map[string]string{"/a": "a", "/b": "b"})
}

// TestClockOfTheTrash: what was deleted stays restorable for as long as was said, and no longer; a clock that is years
// behind empties nothing, and does not keep changes from being found, which go by the Source's time (F15).
func TestClockOfTheTrash(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{}, many(12))
	r.must()
	r.src.Delete("d0/r000.txt")
	r.must()
	for i, step := range []struct {
		clock time.Duration
		left  int
	}{{59 * time.Minute, 1}, {-10 * 365 * 24 * time.Hour, 1}, {61 * time.Minute, 0}} {
		r.put("d1/r001.txt", fmt.Sprint("version ", i))
		r.later(step.clock)
		if res := r.must(); res.Fetched != 1 || res.Kind != "incremental" {
			t.Errorf("with the clock at %v: %+v", step.clock, res)
		}
		if trash := r.listed(report.ListTrash); len(trash) != step.left {
			t.Errorf("with the clock at %v the trash holds %v", step.clock, trash)
		}
		entries, err := os.ReadDir(filepath.Join(r.root, blob.Reserved, "trash"))
		if err != nil || len(entries) != step.left {
			t.Errorf("with the clock at %v %d files lie in the trash, %v", step.clock, len(entries), err)
		}
	}
}

// unreadMirror is a disk on which one file cannot be read, until it was written anew.
type unreadMirror struct {
	blob.Mirror
	key *string
}

func (m unreadMirror) Open(ctx context.Context, key string) (blob.File, blob.Info, error) {
	if key == *m.key {
		return nil, blob.Info{}, &blob.KeyError{Op: "open", Key: key, Err: blob.ErrIO}
	}
	return m.Mirror.Open(ctx, key)
}

func (m unreadMirror) Place(ctx context.Context, group []blob.Placement) ([]error, error) {
	for _, p := range group {
		if p.Key == *m.key {
			*m.key = ""
		}
	}
	return m.Mirror.Place(ctx, group)
}

// TestUnreadableFile: a file that the disk does not give back is found by a verification, which goes on behind it, and
// written anew from the Source (F10).
func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{}, many(12))
	r.must()
	key, err := keymap.NaturalKey(r.src.URI("d0/r000.txt"))
	if err != nil {
		t.Fatal(err)
	}
	r.tune = func(t *Target) { t.Mirror = unreadMirror{t.Mirror, &key} }
	for _, repair := range []bool{false, true, false} {
		var found []Finding
		was := key
		r.with(func(e *Engine, target Target) {
			rep, err := e.Verify(t.Context(), target, r.opts, repair, func(f Finding) error { found = append(found, f); return nil })
			if err != nil || rep.Checked != 12 || rep.InStep != (repair || was == "") {
				t.Errorf("repair %t: %+v, %v", repair, rep, err)
			}
		})
		switch {
		case was == "" && len(found) == 0:
		case was != "" && len(found) == 1 && found[0].Problem == inspect.ProblemChanged && found[0].Repaired == repair && strings.Contains(*found[0].Found, "unreadable"):
		default:
			t.Errorf("repair %t: %+v", repair, found)
		}
	}
	r.must()
	if _, asked := r.asked(); len(asked) != 0 {
		t.Errorf("asked for %v after the repair", asked)
	}
}

// foldingMirror is a disk to which letter case makes no difference.
type foldingMirror struct{ blob.Mirror }

func (foldingMirror) FoldsCase() bool { return true }

// TestFoldingDisk: on a disk that ignores letter case, resources that differ in nothing else have names of their own, whichever
// comes first, and keep them (F82).
func TestFoldingDisk(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{}, map[string]string{"Readme": "1", "docs/a": "2"})
	r.tune = func(t *Target) { t.Mirror = foldingMirror{t.Mirror} }
	for _, name := range []string{"README", "readme/x", "Docs", "DOCS/A", "docs/b"} {
		r.put(name, name)
		if res, err := r.run(); err != nil || !res.InStep {
			t.Fatalf("%s: %+v, %v", name, res, err)
		}
		r.equalByRows()
		names := map[string]bool{} // true: a file
		for key := range r.files() {
			if _, taken := names[keymap.FoldKey(key)]; taken {
				t.Fatalf("%q is taken", key)
			}
			names[keymap.FoldKey(key)] = true
			for folder := range keymap.Folders(key) {
				if names[keymap.FoldKey(folder)] {
					t.Fatalf("folder %q of %q is a file", folder, key)
				}
				names[keymap.FoldKey(folder)] = false
			}
		}
	}
}
