package sync

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"testing"

	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/sync/report"
	"resyncd/sync/transfer"
)

// twoSets is a Source of two sets, each with a Resource List and a Change List of the given entries.
func twoSets(t *testing.T, first, second func(f *fake) []string) *fake {
	t.Helper()
	f := newFake(t)
	f.description("/one.xml", "/two.xml")
	for name, entries := range map[string]func(*fake) []string{"one": first, "two": second} {
		f.capabilities("/"+name+".xml", "resourcelist", "/"+name+"-rl.xml", "changelist", "/"+name+"-cl.xml")
		f.page("/"+name+"-rl.xml", list("resourcelist", `at="`+when(0)+`"`, entries(f)...))
		f.changes(name)
	}
	return f
}

func (f *fake) changes(set string, entries ...string) {
	f.page("/"+set+"-cl.xml", list("changelist", `from="`+when(0)+`"`, entries...))
}

// both runs and insists on both sets being in step, or not, with their totals right.
func (f *fake) both(inStep bool) (one, two Result) {
	f.t.Helper()
	rs := f.all()
	if len(rs) != 2 || (rs[0].InStep && rs[1].InStep) != inStep {
		f.t.Fatalf("in step: want %t: %+v", inStep, rs)
	}
	f.recount()
	return rs[0], rs[1]
}

// recount holds the totals of all sets to the rows.
func (f *fake) recount() {
	f.t.Helper()
	f.with(func(e *Engine, _ Target) {
		ctx := context.Background()
		src, err := e.Store.Source(ctx, "test")
		if err != nil {
			f.t.Fatal(err)
		}
		sets := f.sets(e)
		claim, release, err := e.Store.Claim(ctx, src.ID, "recount")
		if err != nil {
			f.t.Fatal(err)
		}
		defer release() //nolint:errcheck // a test
		for _, set := range sets {
			files, bytes, err := recount(ctx, e.Store, claim, set.ID)
			if err != nil || files != set.Resources || bytes != set.Bytes {
				f.t.Errorf("%s: %d files of %d bytes, recount %d of %d, %v", set.CapabilityList, set.Resources, set.Bytes, files, bytes, err)
			}
		}
	})
}

// recount has the counters of a set counted anew from its rows, as they are where they would become negative.
func recount(ctx context.Context, st store.Store, c store.Claim, id int64) (files, bytes int64, err error) {
	err = st.Commit(ctx, &store.Commit{Claim: c, Sets: []store.SetChange{{ID: id, Resources: -1 << 40}}})
	if err != nil {
		return 0, 0, err
	}
	sets, err := st.Sets(ctx, c.SourceID)
	for _, set := range sets {
		if set.ID == id {
			files, bytes = set.Resources, set.Bytes
		}
	}
	return files, bytes, err
}

// TestSharedResource: a file goes only when no set of its Source wants it.
func TestSharedResource(t *testing.T) {
	t.Parallel()
	shared := func(f *fake) []string { return []string{f.res("/s", "s"), f.res("/s2", "s2")} }
	f := twoSets(t, func(f *fake) []string { return append(shared(f), f.res("/a", "a")) },
		func(f *fake) []string { return append(shared(f), f.res("/b", "b")) })
	one, two := f.both(true)
	if one.Fetched+two.Fetched != 4 {
		t.Errorf("%+v %+v", one, two)
	}
	page := f.pages["/s"]
	f.changes("one", f.deleted("/s", 10))
	f.handle("/s", page)
	f.both(true)
	f.holds(map[string]string{"/a": "a", "/b": "b", "/s": "s", "/s2": "s2"})
	f.changes("two", f.deleted("/s", 11), f.deleted("/b", 12))
	f.both(true)
	f.holds(map[string]string{"/a": "a", "/s2": "s2"})
	f.changes("two", f.entry("/s", `change="deleted" datetime="`+when(11)+`"`), f.entry("/b", `change="deleted" datetime="`+when(12)+`"`),
		f.changed("/s", "s again", "created", 20), f.changed("/s2", "s2 changed", "updated", 21))
	f.both(true)
	f.holds(map[string]string{"/a": "a", "/s2": "s2 changed", "/s": "s again"})
	if one, two = f.both(true); one.Requests+two.Requests > 7 || one.Fetched+two.Fetched != 0 {
		t.Errorf("nothing is new: %+v %+v", one, two)
	}
	f.tidy()
}

// TestSharedDocuments: what one set read says nothing about the rows of another that names the same documents.
func TestSharedDocuments(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"changelist", "changedump"} {
		d := &changeDump{fake: dumped(t, "auto")}
		d.description("/one.xml", "/two.xml")
		for _, path := range []string{"/one.xml", "/two.xml"} {
			d.capabilities(path, "resourcelist", "/rl.xml", kind, "/changes.xml")
		}
		base, news := members(5, 0), changes(members(5, 10), "created", 10)
		d.resourceList(base...)
		publish := func(from, until int, ms ...member) {
			d.add("/p", from, until, ms...)
			d.publish("/changes.xml")
			if kind == "changelist" {
				d.changeList(0, "", ms)
				d.handle("/changes.xml", d.pages["/cl.xml"])
			}
		}
		publish(0, 5)
		d.both(true)
		publish(5, 15, news...)
		d.both(true)
		d.with(func(e *Engine, _ Target) {
			for _, set := range d.sets(e) {
				if set.Resources != 10 {
					t.Errorf("%s: %s has %d resources", kind, set.CapabilityList, set.Resources)
				}
			}
		})
		d.holds(bodiesOf(slices.Concat(base, news)...))
	}
}

// TestDisagreement: two sets with different hashes for one URI do not play ping-pong; the newer entry decides.
func TestDisagreement(t *testing.T) {
	t.Parallel()
	f := twoSets(t, func(f *fake) []string { return []string{f.res("/a", "a")} }, func(f *fake) []string { return []string{f.res("/b", "b")} })
	f.both(true)
	f.changes("one", f.entry("/s", `change="created" datetime="`+when(10)+`" `+fixity("older")))
	f.changes("two", f.changed("/s", "newer", "created", 20))
	for range 3 {
		if rs := f.all(); rs[1].Owed != 0 {
			t.Fatalf("%+v", rs)
		}
	}
	f.holds(map[string]string{"/a": "a", "/b": "b", "/s": "newer"})
	f.recount()
	if _, resources := f.asked(); len(resources) > 7 { // the pages of this Source count as resources
		t.Errorf("asked %v", resources)
	}
}

// TestOwedByOtherSet: what one set owes stays owed, whatever the other set does with the same resource.
func TestOwedByOtherSet(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]func(f *fake) string{
		"absent": func(f *fake) string { return f.entry("/s", `change="deleted" datetime="`+when(5)+`"`) },
		"repeat": func(f *fake) string { return f.entry("/s", `change="updated" datetime="`+when(5)+`" `+fixity("s")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := twoSets(t, func(f *fake) []string { return []string{f.res("/a", "a"), f.res("/s", "s")} },
				func(f *fake) []string { return []string{f.res("/b", "b")} })
			f.both(true)
			f.changes("one", f.entry("/s", `change="updated" datetime="`+when(10)+`" `+fixity("s2")))
			f.changes("two", other(f))
			f.both(false)
			f.page("/s", "s2")
			f.all()
			f.both(true)
			f.holds(map[string]string{"/a": "a", "/b": "b", "/s": "s2"})
		})
	}
}

// TestHeldByOtherSet: while one set holds a removal for the operator, the other does not carry it out.
func TestHeldByOtherSet(t *testing.T) {
	t.Parallel()
	many := func(n int) func(f *fake) []string {
		return func(f *fake) (out []string) {
			for i := range n {
				out = append(out, f.res(fmt.Sprintf("/s%02d", i), fmt.Sprintf("s%d", i)))
			}
			return out
		}
	}
	f := twoSets(t, many(30), many(30))
	f.capabilities("/two.xml", "resourcelist", "/two-rl.xml")
	f.both(true)
	f.page("/two-rl.xml", list("resourcelist", `at="`+when(20)+`"`, many(2)(f)...))
	if _, two := f.both(false); two.Held != 28 {
		t.Fatalf("%+v", two)
	}
	f.changes("one", f.deleted("/s29", 30))
	f.both(false)
	if n := len(f.files()); n != 30 {
		t.Errorf("%d files: one was removed although its removal is held", n)
	}
	f.with(func(e *Engine, target Target) {
		if done, err := e.Approve(context.Background(), target, false); err != nil || done.Resources != 28 {
			t.Errorf("%+v, %v", done, err)
		}
	})
	if n := len(f.files()); n != 29 {
		t.Errorf("%d files: only the one that no set wants goes", n)
	}
	f.both(true)
	f.tidy()
}

// TestSetWithdrawn: a set that is no longer offered is reported after two reads, and loses nothing (F71, F72).
func TestSetWithdrawn(t *testing.T) {
	t.Parallel()
	f := twoSets(t, func(f *fake) []string { return []string{f.res("/a", "a")} }, func(f *fake) []string { return []string{f.res("/b", "b")} })
	f.both(true)
	f.description("/one.xml")
	for range 3 {
		if rs := f.all(); len(rs) != 1 || !rs[0].InStep {
			t.Fatalf("%+v", rs)
		}
	}
	f.holds(map[string]string{"/a": "a", "/b": "b"})
	f.with(func(e *Engine, _ Target) {
		if sets := f.sets(e); len(sets) != 2 || sets[1].Gone < 2 || sets[1].Problem == "" || sets[1].InStep {
			t.Errorf("%+v", sets)
		}
	})
	f.description("/one.xml", "/two.xml")
	f.both(true)
}

// TestErrorPageForDescription: lists that are only guessed do not take the place of a Source that was described (F58).
func TestErrorPageForDescription(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{}, many(12))
	r.fetch = quick
	r.must()
	r.put("d0/r000.txt", "changed")
	r.interpose(func(w http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path != "/.well-known/resourcesync" && req.URL.Path != "/.resourcesync/capabilitylist.xml" {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		return true
	})
	if res, err := r.run(); err == nil {
		t.Errorf("%+v", res)
	}
	r.interpose(nil)
	r.must()
	r.with(func(e *Engine, _ Target) { r.onlySet(e) })
}

// TestDeleteModes: what becomes of a file that the Source deleted, and how it comes back.
func TestDeleteModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []transfer.DeleteMode{transfer.DeleteTrash, transfer.DeleteKeep, transfer.DeleteNow} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := newRigIn(t, ramDir(t), source.Options{}, many(12))
			r.mirror.Unsynced = true
			r.tune = func(t *Target) { t.Delete = mode }
			r.must()
			r.src.Delete("d0/r000.txt")
			r.src.Delete("d1/r001.txt")
			res, err := r.run()
			if err != nil || !res.InStep || res.Deleted != map[transfer.DeleteMode]int64{transfer.DeleteTrash: 2, transfer.DeleteNow: 2}[mode] {
				t.Fatalf("%+v, %v", res, err)
			}
			_, err = os.Stat(r.path("d0/r000.txt"))
			if kept := err == nil; kept != (mode == transfer.DeleteKeep) {
				t.Errorf("the file is there: %t", kept)
			}
			if trash := r.listed(report.ListTrash); len(trash) != map[transfer.DeleteMode]int{transfer.DeleteTrash: 2}[mode] {
				t.Errorf("trash %v", trash)
			}
			r.tidy()
			if mode == transfer.DeleteKeep {
				if got := r.listed(report.ListAll)[r.src.URI("d0/r000.txt")]; got != "kept" {
					t.Errorf("state %q", got)
				}
			}
			if mode == transfer.DeleteTrash {
				r.with(func(e *Engine, target Target) {
					if _, err := e.Restore(context.Background(), target, r.src.URI("d0/r000.txt")); err != nil {
						t.Error(err)
					}
				})
				if b, err := os.ReadFile(r.path("d0/r000.txt")); err != nil || string(b) != "body 0" {
					t.Errorf("restored %q, %v", b, err)
				}
				if got := r.listed(report.ListAll)[r.src.URI("d0/r000.txt")]; got != "kept" {
					t.Errorf("state %q", got)
				}
				res, err := r.run() // a full baseline does not take it away again
				if err != nil || !res.InStep {
					t.Errorf("%+v, %v", res, err)
				}
			}
			r.opts.Full = true
			if res, err := r.run(); err != nil || !res.InStep || res.Held != 0 {
				t.Errorf("%+v, %v", res, err)
			}
			r.opts.Full = false
			r.put("d0/r000.txt", "body 0") // listed again as it was: what was kept is taken over
			r.put("d1/r001.txt", "other")
			res, err = r.run()
			if fetched := map[transfer.DeleteMode]int64{transfer.DeleteTrash: 1, transfer.DeleteKeep: 1, transfer.DeleteNow: 2}[mode]; err != nil || !res.InStep || res.Fetched != fetched {
				t.Errorf("%+v, %v", res, err)
			}
			r.equal()
			r.with(func(e *Engine, _ Target) {
				if set := r.onlySet(e); set.Resources != 12 {
					t.Errorf("%d resources", set.Resources)
				}
			})
		})
	}
}

// listed are the states of `ls`, by URI.
func (r *rig) listed(f report.ListFilter) map[string]string {
	r.t.Helper()
	out := map[string]string{}
	r.with(func(e *Engine, _ Target) {
		src, err := e.Store.Source(context.Background(), "test")
		if err == nil {
			err = report.List(context.Background(), e.Store, src.ID, f, func(l report.Listing) error { out[l.URI] = l.State; return nil })
		}
		if err != nil {
			r.t.Fatal(err)
		}
	})
	return out
}

// TestUnlistedAndKept: with `delete: keep` a file stays that the Resource List no longer names, through every later
// baseline, and is taken over when it is listed again.
func TestUnlistedAndKept(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.tune = func(t *Target) { t.Delete = transfer.DeleteKeep }
	f.set("resourcelist", "/rl.xml")
	publish := func(minute int, entries ...string) {
		f.page("/rl.xml", list("resourcelist", `at="`+when(minute)+`"`, entries...))
	}
	publish(0, f.res("/a", "a"), f.res("/b", "b"))
	f.one(true)
	for minute := 1; minute < 3; minute++ {
		publish(minute, f.res("/a", "a"))
		f.one(true)
		f.holds(map[string]string{"/a": "a", "/b": "b"})
	}
	if got := f.listed(report.ListAll)[f.uri("/b")]; got != "kept" {
		t.Errorf("state %q", got)
	}
	publish(3, f.res("/a", "a"), f.res("/b", "b"))
	if res := f.one(true); res.Fetched != 0 {
		t.Errorf("%+v", res)
	}
	if got := f.listed(report.ListAll)[f.uri("/b")]; got != "present" {
		t.Errorf("state %q", got)
	}
	publish(4, f.res("/a", "a"))
	f.one(true)
	publish(5, f.res("/a", "a"), f.res("/b", "b2"))
	f.one(true)
	f.holds(map[string]string{"/a": "a", "/b": "b2"})
	f.with(func(e *Engine, _ Target) {
		if set := f.onlySet(e); set.Resources != 2 || set.Bytes != 3 {
			t.Errorf("%+v", set)
		}
	})
	f.quiet()
}

// TestPlanOfSets: a dry run names each resource once, however many sets there are.
func TestPlanOfSets(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.description("/c1.xml", "/c2.xml")
	f.capabilities("/c1.xml", "resourcelist", "/rl1.xml")
	f.capabilities("/c2.xml", "resourcelist", "/rl2.xml")
	f.page("/rl1.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), f.res("/both", "both"), f.res("/had", "had")))
	f.page("/rl2.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/b", "b"), f.res("/both", "both")))
	write(t, f.path("had"), "had")
	named := map[string]int{}
	f.opts.Plan = func(p Planned) error { named[p.Action+" "+p.URI]++; return nil }
	results := f.all()
	want := map[string]int{"fetch " + f.uri("/a"): 1, "fetch " + f.uri("/b"): 1, "fetch " + f.uri("/both"): 1}
	if !maps.Equal(named, want) || results[0].Unchanged != 1 || results[1].Unchanged != 0 {
		t.Errorf("%v, %+v", named, results)
	}
}
