package sync

import (
	"fmt"
	"os"
	"testing"

	"resyncd/destination/peer/source"
)

// numbered lists the resources from first on, up to n of them in all.
func (f *fake) numbered(first, n int) (out []string) {
	for i := first; i < n; i++ {
		out = append(out, f.res(fmt.Sprintf("/r%03d", i), fmt.Sprintf("body %d", i)))
	}
	return out
}

// TestHeldAfterAMistake: removals that a list had held are judged anew by the next one. What that lacks is removed if it is
// little enough, and held on if not; one that names nothing of it lifts nothing.
func TestHeldAfterAMistake(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		first, n   int // what the next list names of 60
		held, gone int64
	}{
		"all there again":          {0, 60, 0, 0},
		"a few are gone":           {8, 60, 0, 8},
		"too many are gone":        {20, 60, 20, 0},
		"none of them, but others": {60, 400, 60, 0},
	} {
		for _, with := range []string{"with a Change List", "without one"} {
			t.Run(name+" "+with, func(t *testing.T) {
				t.Parallel()
				f := newFake(t)
				f.set("resourcelist", "/rl.xml")
				if with != "without one" {
					f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
					f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`))
				}
				f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.numbered(0, 60)...))
				f.one(true)
				f.page("/rl.xml", list("resourcelist", `at="`+when(10)+`"`))
				f.opts.Full = true
				if res := f.one(false); res.Held != 60 || res.Deleted != 0 {
					t.Fatalf("%+v", res)
				}
				f.opts.Full = false
				f.page("/rl.xml", list("resourcelist", `at="`+when(20)+`"`, f.numbered(tc.first, tc.n)...))
				if res := f.one(tc.held == 0); res.Held != tc.held || res.Deleted != tc.gone {
					t.Errorf("want %d held and %d deleted: %+v", tc.held, tc.gone, res)
				}
				if tc.held > 0 { // nor does the next, which says the same of more
					f.page("/rl.xml", list("resourcelist", `at="`+when(30)+`"`, f.numbered(tc.first, max(tc.n, 300))...))
					if res := f.one(false); res.Held != tc.held || res.Deleted != 0 {
						t.Errorf("want %d held: %+v", tc.held, res)
					}
					return
				}
				f.with(func(e *Engine, _ Target) {
					if n, counted := int64(len(f.files())), f.onlySet(e).Resources; n != 60-tc.gone || counted != n {
						t.Errorf("%d files, %d are counted", n, counted)
					}
				})
				f.quietWith(5)
			})
		}
	}
}

// TestFollowerSweepsOnce: a sweep that a Follower put off, as the first list after the loss of the state was empty, is carried
// out once, and not again by the next Follower, on files that are none of a lost state's.
func TestFollowerSweepsOnce(t *testing.T) {
	t.Parallel()
	was := many(40)
	p := newPusher(t, source.Options{}, was)
	p.pull(false)
	p.eventually("quiet", func() bool { return p.same() && p.quiet() })
	p.stop()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(p.rig.db + suffix); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	for name := range was {
		p.src.Delete(name)
	}
	p.follow()
	p.pull(true)
	if n := len(p.files()); n != 40 {
		t.Fatalf("%d files", n)
	}
	for name, body := range was {
		if name != "d0/r000.txt" && name != "d1/r001.txt" {
			p.put(name, body)
		}
	}
	p.pull(true)
	p.eventually("fetched", p.quiet)
	p.pull(true)
	p.eventually("swept", func() bool { return p.same() && p.quiet() })
	p.stop()
	if err := os.WriteFile(p.path("d0/mine"), []byte("the operator's"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.follow()
	p.pull(false)
	p.eventually("quiet", p.quiet)
	if _, err := os.Stat(p.path("d0/mine")); err != nil {
		t.Errorf("swept once more: %v", err)
	}
}
