package sync

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/sync/plan"
)

// feedWorld is a random history of one odd feed, its hub and the real engine.
type feedWorld struct {
	*rig
	rt    *rapid.T
	s     *feedSource
	odd   *feedOddities
	log   []string
	ticks time.Duration
	dice  []int
	told  int // events that the hub knew of
	sub   store.Subscription
	fate  *fate
	eng   *Engine
	to    Target
	done  func()
	runs  feedRuns
	gaps  map[string]bool // that were seen
	began bool            // a run has ended in step
	// shown are the entries of the feed's document at the last run in step; slid: more than half of them were gone at a later one.
	shown []*feedItem
	slid  bool
	lone  bool // it named no archive then, so nobody could know that it has any
	// follows: what entries link to is mirrored, perhaps from some day on.
	follows bool
	tally   *feedTally
}

// feedRun is one run or one life of a Follower.
type feedRun struct {
	tick   int
	inStep bool // and nothing stood between it and the feed
	gap    bool // it found an unprovable gap
}

type feedRuns []feedRun

// found counts the runs that found a gap.
func (rs feedRuns) found() (n int) {
	for _, r := range rs {
		n += boolInt(r.gap)
	}
	return n
}

// gapFor reports whether a gap was found in time that may be the loss of what was said at tick. Two runs in step are time
// enough.
func (rs feedRuns) gapFor(tick int) bool {
	inStep := 0
	for _, r := range rs {
		switch {
		case r.tick <= tick:
		case r.gap:
			return true
		case r.inStep:
			if inStep++; inStep == 2 {
				return false
			}
		}
	}
	return false
}

// feedTally is what became of many histories.
type feedTally struct{ runs, equal, gaps, honest int }

func (y *feedTally) String() string {
	return fmt.Sprintf("%d runs: %d ended in step and equal, %d in step with an unprovable gap, %d not in step",
		y.runs, y.equal, y.gaps, y.honest)
}

// feedSearch draws histories until the time is over. What is on is drawn by pick.
func feedSearch(t *testing.T, budget time.Duration, pick func(rt *rapid.T) *feedOddities) {
	y := &feedTally{}
	oddSearch(t, budget, y, func(rt *rapid.T, folder string) { feedHistory(rt, folder, pick(rt), y) })
}

// TestFeedModel is the promise that nothing is ever wrong in silence, for feeds that are odd in several ways at once: once a
// feed is calm, two runs later the mirror is what its Source says, or the set says that it is not, or that nobody can tell.
func TestFeedModel(t *testing.T) {
	t.Parallel()
	feedSearch(t, evBudget(2*time.Second), func(rt *rapid.T) *feedOddities {
		o := &feedOddities{}
		if names := os.Getenv("RESYNCD_FEED_ODD"); names != "" {
			o.set(names, true)
			return o
		}
		for range rapid.IntRange(0, evOddities()).Draw(rt, "oddities") {
			o.set(rapid.SampledFrom(slices.Concat(oddNamesOf[feedOddities](), feedTogether)).Draw(rt, "oddity"), true)
		}
		o.set(os.Getenv("RESYNCD_FEED_NOT"), false)
		return o
	})
}

// feedTogether are oddities that matter together.
var feedTogether = []string{
	"Archives,Missing", "Archives,Missing,Lost", "Archives,Future", "Archives,Pinned", "Archives,OldVersions", "Archives,Pages",
	"Archives,Forged", "Archives,Forged,Full", "Archives,Undated", "Archives,Late", "Archives,Full", "Pushed,Archives", "Pushed,Late2", "Pushed,Forged",
	"Pushed,Undated", "Pushed,SameDate", "Pushed,Killed", "Complete,Guard", "Complete,Pushed", "Reborn,Forgets", "Restored,Full",
	"Reborn,Full", "Ascending,Undated", "Alphabetic,Undated", "Stale,Undated", "Stale,Restored", "Follow,SameDate", "Follow,Full",
	"Follow,Undated", "Records,Archives", "Records,Pushed", "Records,Ascending", "Records,Missing", "Records,Killed", "Flawed,Archives", "InPage,Archives", "Guard,Forged", "Archives,Killed", "Archives,Faulty",
}

// TestFeedModelEach is TestFeedModel over feeds that are odd in one way, for each way, and in some that matter together.
func TestFeedModelEach(t *testing.T) {
	for _, names := range slices.Concat([]string{""}, oddNamesOf[feedOddities](), feedTogether) {
		t.Run(cmp.Or(names, "None"), func(t *testing.T) {
			feedSearch(t, evBudget(50*time.Millisecond), func(*rapid.T) *feedOddities {
				o := &feedOddities{}
				o.set(names, true)
				return o
			})
		})
	}
}

func feedHistory(rt *rapid.T, folder string, o *feedOddities, y *feedTally) {
	h := newFeedWorld(rt, folder, o, y)
	defer h.end()
	h.pull()
	for _, st := range rapid.SliceOfN(rapid.Custom(h.drawStep), 1, 10).Draw(rt, "steps") {
		h.step(st)
	}
	h.calm()
}

func newFeedWorld(rt *rapid.T, folder string, o *feedOddities, y *feedTally) *feedWorld {
	o.sane()
	h := &feedWorld{rt: rt, odd: o, fate: &fate{}, tally: y, gaps: map[string]bool{}}
	h.rig = newRigIn(rt, folder, source.Options{}, nil)
	h.rig.fetch, h.rig.mirror.Unsynced = quick, true
	h.tune = func(t *Target) {
		t.Kind, t.URL = KindFeed, h.srv.URL+feedPath
		t.Mirror = fatedMirror{t.Mirror, h.fate}
		if !o.Guard {
			t.DeleteGuard = 1
		}
		if o.Records {
			t.Records = plan.RecordsResourceFinder
		}
		if h.follows {
			t.Follow = []string{"enclosure"}
		}
	}
	begun := time.Now()
	h.engine = func(e *Engine) {
		e.Store = fatedStore{e.Store, h.fate}
		e.Now = func() time.Time {
			h.s.mu.Lock()
			defer h.s.mu.Unlock()
			h.ticks += time.Microsecond
			if o.Pushed || o.Forged || o.Late2 { // a Follower waits for real time to pass
				return h.s.clock.Add(time.Since(begun))
			}
			return h.s.clock.Add(h.ticks)
		}
	}
	s := newFeedSource(h.srv.URL, *o)
	h.s = s
	s.window = rapid.SampledFrom([]int{4, 6, 3}).Draw(rt, "window")
	s.chunk = rapid.SampledFrom([]int{2, 3, 5}).Draw(rt, "archive")
	s.order = rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(rt, "order")
	if o.Pinned { // in any other order nothing tells what is pinned from what is still there
		s.order, o.Ascending, o.Alphabetic = 0, false, false
		s.odd = *o
	}
	s.validBy = rapid.IntRange(0, 2).Draw(rt, "validators")
	h.interpose(func(w http.ResponseWriter, req *http.Request) bool { s.ServeHTTP(w, req); return true })
	for i := range 3 {
		s.files[fmt.Sprintf("/file%d", i)] = &feedFile{text: h.word()}
	}
	h.follows = o.Follow && rapid.Bool().Draw(rt, "follows at first")
	h.say("%s: window %d, archives of %d, order %d, validators %d", o, s.window, s.chunk, s.order, s.validBy)
	s.write()
	h.dice = make([]int, 1000)
	for i := range h.dice {
		h.dice[i] = i % 7
	}
	for range rapid.IntRange(1, 9).Draw(rt, "entries") {
		h.publish()
	}
	if o.Missing && len(s.archives) > 0 && rapid.Bool().Draw(rt, "missing at first") {
		s.missing[archivePath(len(s.archives)-1)] = true
		h.say("the newest archive is missing")
	}
	h.told = len(s.events)
	h.wait(2 * time.Minute)
	return h
}

// sane takes out what cannot be together.
func (o *feedOddities) sane() {
	if o.Complete { // there is nothing else than its one document
		o.Archives, o.Pages, o.Ascending, o.Alphabetic = false, false, false, false
	}
	if o.Alphabetic {
		o.Ascending, o.Pages = false, false
	}
	if o.Ascending {
		o.Pages = false
	}
	if o.Records { // edits are added, and nothing else happens to them
		for _, names := range []string{"Undated,Future,Late,SameDate,InPlace,Restored,Reborn,Untombed,Forgets", "Complete,Forged,Follow,InPage"} {
			o.set(names, false)
		}
	}
	if o.Lost {
		o.Missing = true
	}
	if o.Missing || o.OldVersions {
		o.Archives = !o.Complete
	}
}

func (h *feedWorld) say(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%3d %s ", h.s.tick, h.s.clock.Sub(evBegin))+fmt.Sprintf(format, args...))
}

func (h *feedWorld) fail(format string, args ...any) {
	h.rt.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(h.log, "\n"))
}

// shut closes state and mirror.
func (h *feedWorld) shut() {
	if h.done != nil {
		h.done()
		h.done = nil
	}
}

func (h *feedWorld) end() {
	h.shut()
	h.srv.Close()
	_ = os.RemoveAll(filepath.Dir(h.db))
}

// pull is one run.
func (h *feedWorld) pull() Result {
	if h.done == nil {
		h.eng, h.to, h.done = h.open()
	}
	s := h.s
	s.mu.Lock()
	s.clock = s.clock.Add(10 * time.Millisecond)
	kept := map[string]*feedDoc{}
	for path, d := range s.docs {
		copied := *d
		copied.date = s.clock
		kept[path] = &copied
	}
	s.copies, s.served = append(s.copies, kept), map[*feedItem]bool{}
	plain := s.stale == nil && !s.inPage && s.broken == 0 && s.over == nil
	requests := s.requests
	shown, again := s.docs[feedPath].items, 0
	for _, it := range h.shown {
		again += boolInt(slices.Contains(shown, it))
	}
	slid := len(h.shown) > 0 && 2*again <= len(h.shown)
	h.slid, h.lone = h.slid || slid, h.lone || slid && len(s.archives) == 0
	s.mu.Unlock()
	results, err := h.eng.Run(context.Background(), h.to, h.opts)
	h.tally.runs++
	var res Result
	if len(results) > 0 {
		res = results[0]
	}
	problem := res.Problem
	if err != nil {
		res.InStep, problem = false, err.Error()
	}
	h.say("a run: %s, in step %t, %d fetched, %d deleted, %d held, %d owed, %d gaps, %d requests; %s; %s", res.Kind, res.InStep,
		res.Fetched, res.Deleted, res.Held, res.Owed, res.GapsFound, s.requests-requests, problem, strings.Join(h.state(), " "))
	h.ran(res.InStep && plain, h.listed())
	if res.InStep {
		h.shown = shown
		h.readable()
	}
	return res
}

// listed are the gaps of the set.
func (h *feedWorld) listed() []store.Gap {
	if h.fate.dead() {
		return nil
	}
	src, err := h.eng.Store.Source(context.Background(), "test")
	if err != nil {
		return nil
	}
	sets, err := h.eng.Store.Sets(context.Background(), src.ID)
	if err != nil || len(sets) == 0 {
		return nil
	}
	gaps, err := h.eng.Store.Gaps(context.Background(), sets[0].ID)
	if err != nil {
		h.rt.Fatal(err)
	}
	return gaps
}

// ran remembers how a run ended.
func (h *feedWorld) ran(inStep bool, gaps []store.Gap) {
	h.s.tick++
	r := feedRun{tick: h.s.tick, inStep: inStep}
	for _, g := range gaps {
		key := fmt.Sprint(g.From, g.Until, g.Found, g.State)
		if g.State == store.GapUnprovable && !h.gaps[key] {
			r.gap, h.gaps[key] = true, true
			h.say("a gap that nobody can prove: %s to %s", time.UnixMicro(int64(g.From)).Sub(evBegin), time.UnixMicro(int64(g.Until)).Sub(evBegin))
		}
	}
	h.runs = append(h.runs, r)
}

// readable takes note of what no run in step could read before the first one: of that nobody promised anything.
func (h *feedWorld) readable() {
	if h.began {
		return
	}
	h.began = true
	shown := map[*feedItem]bool{}
	for _, d := range h.s.docs {
		for _, it := range d.items {
			shown[it] = true
		}
	}
	for _, e := range h.s.things {
		e.unread = !shown[e.last()]
	}
}

// state is the mirror, for the log.
func (h *feedWorld) state() (out []string) {
	got := h.held()
	for _, id := range slices.Sorted(maps.Keys(got)) {
		out = append(out, id+"="+got[id])
	}
	return out
}

// held are the texts in the mirror by id.
func (h *feedWorld) held() map[string]string {
	s := &site{pusher: &pusher{rig: h.rig}}
	return s.texts()
}
