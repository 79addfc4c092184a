package sync

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/coverage"
	"resyncd/sync/keymap"
	"resyncd/sync/pull"
)

// follow begins a Follower of a Source written by hand.
func (f *fake) follow() *pusher {
	f.t.Helper()
	p := &pusher{rig: f.rig, jobs: map[Work]time.Time{}, wake: make(chan struct{}, 1)}
	p.follow()
	f.t.Cleanup(func() { p.stop() })
	return p
}

// minute is an instant of the fake's history in a notification.
func minute(t *testing.T, n int) rsdoc.Micros {
	t.Helper()
	at, err := time.Parse(time.RFC3339, when(n))
	if err != nil {
		t.Fatal(err)
	}
	return rsdoc.MicrosOf(at)
}

func (p *pusher) emptied() {
	p.t.Helper()
	p.eventually("taken up", func() bool {
		n, err := waiting(p.store)
		return err == nil && n.Deliveries == 0
	})
}

// told says of a resource of a fake that it changed, in a signed notification.
func (p *pusher) told(f *fake, path string, change rsdoc.Change, from, until rsdoc.Micros) {
	p.t.Helper()
	c := source.Change{URI: f.uri(path), Change: change, Datetime: until, Length: 5}
	p.deliver(rsdoc.Interval{From: from, Until: until}, p.document(rsdoc.Interval{From: from, Until: until}, []source.Change{c}), true)
	p.emptied()
}

// flakyMirror is a disk that is full, or cannot take names, while it is told so.
type flakyMirror struct {
	blob.Mirror
	full, odd *atomic.Bool
}

func (m flakyMirror) NewStage(ctx context.Context) (blob.Stage, error) {
	s, err := m.Mirror.NewStage(ctx)
	if err == nil && m.full.Load() {
		return fullStage{s}, nil
	}
	return s, err
}

func (m flakyMirror) Trash(ctx context.Context, items []blob.TrashItem) []error {
	why := error(blob.ErrNoSpace)
	if m.odd.Swap(false) {
		why = errors.New("not now")
	} else if !m.full.Load() {
		return m.Mirror.Trash(ctx, items)
	}
	errs := make([]error, len(items))
	for i := range errs {
		errs[i] = &blob.KeyError{Op: "trash", Key: items[i].Key, Err: why}
	}
	return errs
}

// newFlaky follows a Source with a mirror that fails when it is told to.
func newFlaky(t *testing.T, full, odd *atomic.Bool) *pusher {
	t.Helper()
	p := newPusher(t, source.Options{}, many(20))
	p.stop()
	p.tune = func(t *Target) { t.Mirror = flakyMirror{t.Mirror, full, odd} }
	p.follow()
	return p
}

// A disk that was full is tried again, and work resumes by itself (F6), whoever found out: a fetch or a removal.
func TestFollowDiskFull(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"bytes", "removal", "one removal"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var full, odd atomic.Bool
			p := newFlaky(t, &full, &odd)
			p.pull(false)
			p.eventually("at rest", p.f.Idle)
			full.Store(name != "one removal")
			odd.Store(name == "one removal")
			if name == "bytes" {
				p.put("a.txt", "1")
			} else {
				p.src.Delete("d0/r000.txt")
			}
			p.pull(false)
			if full.Load() {
				p.eventually("halted", p.f.rec.IsHalted)
				full.Store(false)
			}
			p.eventually("the mirror equals the Source", p.same)
			p.eventually("its set is told to be in step", p.well)
		})
	}
	t.Run("begun anew meanwhile", func(t *testing.T) {
		t.Parallel()
		var full, odd atomic.Bool
		p := newFlaky(t, &full, &odd)
		full.Store(true)
		if res := p.pull(false); res.Problem == "" {
			t.Errorf("%+v", res)
		}
		p.stop()
		full.Store(false)
		p.follow()
		p.eventually("its set is told to be in step", func() bool { return p.same() && p.well() })
	})
}

// well reports whether the last pull of the only set left nothing to say against it.
func (p *pusher) well() bool {
	s := p.theSet()
	return s.InStep && s.Problem == ""
}

// Named rows are all looked at, however many there are and whatever the first ones need.
func TestManyNamedRows(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(2*1000+1))
	p.pull(false)
	p.eventually("at rest", p.f.Idle)
	s := p.f.s
	rs, err := s.Store.Scan(t.Context(), store.ScanQuery{SourceID: s.src.ID, Limit: 3000})
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int64, len(rs))
	for i, r := range rs {
		ids[i] = r.ID
	}
	last := ids[len(ids)-1]
	s.Site.Rows.Lock()
	err = s.Store.Commit(t.Context(), &store.Commit{Claim: s.Claim, Resources: []store.ResourceChange{
		{ID: last, Have: &store.Have{}, Work: &store.Work{Action: store.ActionFetch, Due: s.Site.LocalNow()}},
	}})
	s.Site.Name(ids)
	s.Site.Rows.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	p.eventually("the last one was fetched", func() bool {
		rs, err := s.Store.ByIDs(context.Background(), []int64{last})
		return err == nil && rs[0].Have.State == store.HavePresent
	})
}

// The until of a notification behind a hole counts for no more than it did when it came (F40).
func TestHoleBeforeTheFuture(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	p.put("lost.txt", "2")
	p.taken()
	p.put("seen.txt", "3")
	c, _ := p.taken()
	iv := rsdoc.Interval{From: c[0].Datetime, Until: c[0].Datetime + 10*365*86400*1e6}
	p.deliver(iv, p.document(iv, c), true)
	p.eventually("quiet", func() bool { return p.same() && p.quiet() })
	if end, most := p.theSetUntil(), rsdoc.MicrosOf(time.Now())+rsdoc.Micros(pull.ClockError); end > most {
		t.Errorf("the position went to %v", time.UnixMicro(int64(end)))
	}
}

// A deletion that the Source denies gives way to what the documents say now, which may be newer than the file.
func TestDeniedDeletionOfANewerVersion(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/a.txt", "one")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.entry("/a.txt", "")))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`))
	p := f.follow()
	p.pull(false)
	f.holds(map[string]string{"/a.txt": "one"})
	f.handle("/a.txt", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusServiceUnavailable) })
	p.told(f, "/a.txt", rsdoc.ChangeDeleted, minute(t, 15), minute(t, 20))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, f.entry("/a.txt", `change="updated" datetime="`+when(10)+`"`)))
	p.pull(false)
	f.page("/a.txt", "two")
	key, err := keymap.NaturalKey(f.uri("/a.txt"))
	if err != nil {
		t.Fatal(err)
	}
	p.eventually("the newer version is here", func() bool {
		b, err := os.ReadFile(p.root + "/" + key)
		return err == nil && string(b) == "two"
	})
}

// A forged update and a moment in which the Source answers 404 take no file away that its documents list (P5).
func TestForgedUpdateAnd404(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a.txt", "one"), f.res("/b.txt", "bee")))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`))
	p := f.follow()
	p.pull(false)
	f.handle("/a.txt", nil)
	p.told(f, "/a.txt", rsdoc.ChangeUpdated, minute(t, 15), minute(t, 20))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, f.changed("/b.txt", "bees", "updated", 30)))
	p.pull(false)
	p.eventually("at rest", p.f.Idle)
	f.holds(map[string]string{"/a.txt": "one", "/b.txt": "bees"})
	p.eventually("nothing is owed", p.quiet)
}

// What was forged lives until the next pull, also when the Source never changes again (P9).
func TestForgeryOfAQuietSource(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a.txt", "one"), f.res("/b.txt", "bee")))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, f.changed("/b.txt", "bees", "updated", 10)))
	p := f.follow()
	p.pull(false)
	p.told(f, "/a.txt", rsdoc.ChangeUpdated, minute(t, 9), minute(t, 20)) // with a hash that is not the Source's
	p.told(f, "/none.txt", rsdoc.ChangeCreated, minute(t, 9), minute(t, 21))
	p.pull(false)
	p.eventually("nothing is owed", func() bool {
		counts, err := p.store.Counts(context.Background(), p.theSet().ID)
		return err == nil && counts.Owed == 0
	})
	f.holds(map[string]string{"/a.txt": "one", "/b.txt": "bees"})
}

// The result of a pull counts the removals that it asked for.
func TestPullAwaitsRemovals(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(30))
	p.pull(false)
	for i := range 20 {
		p.src.Delete(fmt.Sprintf("d%d/r%03d.txt", i%3, i))
		if i%10 == 9 { // the guard is about sweeps, not about these
			p.put("more.txt", fmt.Sprint(i))
		}
		if r := p.pull(false); !r.InStep || r.Deleted != 1 {
			t.Fatalf("%d: %+v", i, r)
		}
	}
}

// An empty notification behind a hole, and a list read once since, prove nothing: lists lag (coverage.md 4, rule 4).
func TestEmptyNoticeIsNotRipe(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	p.pull(false) // so that the list is known as it is
	thaw := p.freeze(t)
	p.put("lost.txt", "2")
	_, iv := p.taken()
	before := p.theSetUntil()
	p.forgetAsked()
	p.push() // empty
	p.emptied()
	p.eventually("the list was read", func() bool { docs, _ := p.asked(); return len(docs) > 0 })
	p.f.Hint(p.theSet().ID)
	p.eventually("and judged", func() bool {
		s := p.theSet()
		c := coverage.Coverage{Floor: s.Floor, Proven: s.Proven, Joint: s.Joint}
		return len(c.Unheard()) == 1
	})
	<-time.After(200 * time.Millisecond)
	if end := p.theSetUntil(); end != before || end >= iv.Until {
		t.Errorf("the position went from %d to %d, beyond a change at %d that nobody told", before, end, iv.Until)
	}
	thaw()
	p.put("b.txt", "3")
	p.pull(false)
	p.eventually("the mirror equals the Source", p.same)
}

// A gap whose hole a baseline closed does not stay open, whoever asked for that.
func TestBaselineClosesGap(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a.txt", "one")))
	p := f.follow()
	p.pull(false)
	f.page("/b.txt", "bee")
	p.told(f, "/b.txt", rsdoc.ChangeCreated, minute(t, 15), minute(t, 20))
	p.eventually("the gap is open", func() bool { g := p.listed(); return len(g) == 1 && g[0].State == store.GapLagging })
	f.page("/rl.xml", list("resourcelist", `at="`+when(30)+`"`, f.res("/a.txt", "one"), f.res("/b.txt", "bee")))
	p.frame(map[string]rsdoc.Kind{f.uri("/rl.xml"): rsdoc.KindResourceList})
	p.eventually("the baseline was taken", func() bool { return p.theSet().Baselines == 2 })
	p.eventually("quiet", p.quiet)
	if r := p.pull(false); !r.InStep {
		t.Errorf("%+v, gaps %+v", r, p.listed())
	}
	f.holds(map[string]string{"/a.txt": "one", "/b.txt": "bee"})
}

// A hole before a notification that the Change List does not fill for gap_patience is closed by a Resource List that is as of
// its end or later, and by no older one.
func TestLaggingForLong(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a.txt", "one")))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`))
	p := f.follow()
	p.pull(false)
	f.page("/b.txt", "bee")
	p.told(f, "/b.txt", rsdoc.ChangeCreated, minute(t, 15), minute(t, 20))
	p.eventually("the gap is open", func() bool { g := p.listed(); return len(g) == 1 && g[0].State == store.GapLagging })
	for _, c := range []struct {
		later     time.Duration
		at        int
		baselines int64
	}{{23 * time.Hour, 30, 1}, {25 * time.Hour, 14, 1}, {25 * time.Hour, 15, 2}} {
		p.stop()
		f.later(c.later)
		f.page("/rl.xml", list("resourcelist", `at="`+when(c.at)+`"`, f.res("/a.txt", "one"), f.res("/b.txt", "bee")))
		p = f.follow()
		r, n, gaps := p.pull(false), p.theSet().Baselines, p.listed()
		if n != c.baselines || r.InStep != (n == 2) || (len(gaps) == 0) != r.InStep {
			t.Errorf("after %s, with a list of minute %d: %d baselines, %+v, gaps %+v", c.later, c.at, n, r, gaps)
		}
	}
}

// What a complete list does not name is not brought back by the end of a forgery.
func TestForgeryOfAnUnlistedResource(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a.txt", "one"), f.res("/b.txt", "bee")))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`))
	p := f.follow()
	p.pull(false)
	p.told(f, "/a.txt", rsdoc.ChangeUpdated, minute(t, 15), minute(t, 20))
	f.handle("/a.txt", nil)
	f.page("/rl.xml", list("resourcelist", `at="`+when(10)+`"`, f.res("/b.txt", "bee")))
	f.page("/cl.xml", list("changelist", `from="`+when(10)+`"`))
	p.pull(true)
	p.eventually("the file is gone", func() bool { return len(p.files()) == 1 })
	p.eventually("nothing is owed", func() bool {
		counts, err := p.store.Counts(context.Background(), p.theSet().ID)
		return err == nil && counts.Owed == 0
	})
}

// What is owed is tried again in its time, however much is pushed meanwhile.
func TestOwedBesidePushes(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	p.taken()
	p.pull(false)
	var asked atomic.Int64
	p.interpose(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/owed.txt" || asked.Add(1) > 2 {
			return false
		}
		http.Error(w, "not yet", http.StatusNotFound)
		return true
	})
	p.put("owed.txt", "owed")
	p.push()
	for end := time.Now().Add(10 * time.Second); ; <-time.After(30 * time.Millisecond) {
		if _, err := os.Stat(p.path("owed.txt")); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal("what is owed waits for the end of all pushes")
		}
		p.put("busy.txt", time.Until(end).String())
		p.push()
	}
}
