package sync

import (
	"cmp"
	"context"
	"fmt"
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
)

// evWorld is a random history of one odd Source and the real engine, one run after the other.
type evWorld struct {
	*rig
	rt    *rapid.T
	s     *evSource
	odd   *oddities
	names []string
	log   []string
	local time.Duration // how far ahead our clock is
	ticks time.Duration
	dice  []int
	last  [2]int // the dice for the end
	told  int    // events that the hub was told of
	until time.Time
	said  []evNotice
	sub   store.Subscription
	fate  *fate
	eng   *Engine
	to    Target
	done  func()
	kept  []map[string]string // what the mirror held after each run
	tally *evTally
}

// evTally is what became of many histories.
type evTally struct{ runs, equal, honest, asks int }

func (y *evTally) String() string {
	return fmt.Sprintf("%d runs: %d ended in step, %d said that they are not; %d bodies asked for in vain",
		y.runs, y.equal, y.honest, y.asks)
}

// evSearch draws histories until the time is over. What is on is drawn by pick.
func evSearch(t *testing.T, budget time.Duration, pick func(rt *rapid.T) *oddities) {
	y := &evTally{}
	oddSearch(t, budget, y, func(rt *rapid.T, folder string) { evHistory(rt, folder, pick(rt), y) })
}

// TestEvidenceModel is the promise that nothing is ever wrong in silence, over Sources that are odd in several ways at once:
// once a Source is calm, two runs later its mirror is equal to it, or the set is said not to be in step.
func TestEvidenceModel(t *testing.T) {
	t.Parallel()
	evSearch(t, evBudget(2*time.Second), func(rt *rapid.T) *oddities {
		o := &oddities{}
		if names := os.Getenv("RESYNCD_EVIDENCE_ODD"); names != "" {
			return evOdd(names)
		}
		for range rapid.IntRange(0, evOddities()).Draw(rt, "oddities") {
			o.set(rapid.SampledFrom(oddNamesOf[oddities]()).Draw(rt, "oddity"), true)
		}
		o.StuckIndex = false // what it says is not so
		for name := range strings.SplitSeq(os.Getenv("RESYNCD_EVIDENCE_NOT"), ",") {
			o.set(name, false)
		}
		return o
	})
}

// evTogether are oddities that matter together.
var evTogether = []string{
	"", "NoAt,OldModified", "NoAt,NoModified", "NoAt,NoModified,DateAhead", "NoAt,NoModified,NoDate,LocalSkew", "NoAt,StaticPart",
	"NoAt,PartsUndated,StaticPart", "NoAt,NewestFirst", "StuckAt,NewestFirst", "RepeatAt,Shuffled", "StaticPart,Forgetful",
	"StaticPart,PartsUndated", "StuckAt,Forgetful", "BackAt,Forgetful", "BackAt,NoFrom", "NoAt,Restored", "Restored,Forgetful",
	"SecondETag,LengthOnly", "SecondETag,Bare", "Bare,Pruned", "LengthOnly,StuckAt", "Bare,NoAt", "Midway,StaticPart",
	"Midway,NoAt", "Midway,Forgetful", "Killed,Midway", "Killed,Forgetful", "Killed,Lost", "Older,Full", "Lost,Bare", "Older,Bare",
	"Faulty,Forgetful", "AppSkew,NoAt", "AppSkew,UntilAhead", "DateAhead,Forgetful", "StaleParts,Forgetful",
	"StaleParts,NoAt", "TwoLists,Restored", "Batched,WholeSeconds", "Batched,Pruned", "Unreadable,Forgetful", "Unreadable,NoFrom",
	"Unreadable,Pruned", "NoValid,StuckAt", "NoValid,NoAt", "Pushed,Forgetful", "Pushed,StuckAt", "Pushed,NoAt", "Pushed,NoFrom", "Pushed,UntilAhead", "Pushed,Bare",
}

// TestEvidenceEach is TestEvidenceModel over Sources that are odd in one way, for each way, and in some that matter together.
func TestEvidenceEach(t *testing.T) {
	for _, names := range slices.Concat(evTogether, oddNamesOf[oddities]()) {
		t.Run(cmp.Or(names, "None"), func(t *testing.T) {
			evSearch(t, evBudget(50*time.Millisecond), func(*rapid.T) *oddities { return evOdd(names) })
		})
	}
}

// evOdd are the oddities with these names.
func evOdd(names string) *oddities {
	o := &oddities{}
	for name := range strings.SplitSeq(names, ",") {
		o.set(name, true)
	}
	return o
}

func evHistory(rt *rapid.T, folder string, o *oddities, y *evTally) {
	h := newEvidence(rt, folder, o, y)
	defer h.end()
	h.pull()
	for i := range h.last {
		h.last[i] = rapid.IntRange(0, 59).Draw(rt, "at the end")
	}
	for _, st := range rapid.SliceOfN(rapid.Custom(h.drawStep), 1, 9).Draw(rt, "steps") {
		h.step(st)
	}
	h.calm()
}

func newEvidence(rt *rapid.T, folder string, o *oddities, y *evTally) *evWorld {
	h := &evWorld{rt: rt, odd: o, fate: &fate{}, tally: y}
	h.rig = newRigIn(rt, folder, source.Options{}, nil)
	h.rig.fetch, h.rig.mirror.Unsynced = quick, true
	h.tune = func(t *Target) { t.DeleteGuard = 1; t.Mirror = fatedMirror{t.Mirror, h.fate} }
	begun := time.Now()
	h.engine = func(e *Engine) {
		e.Store = fatedStore{e.Store, h.fate}
		e.Now = func() time.Time {
			h.s.mu.Lock()
			defer h.s.mu.Unlock()
			h.ticks += time.Microsecond
			if o.Pushed { // a Follower waits for its grace to pass
				return h.s.clock.Add(h.local + time.Since(begun))
			}
			return h.s.clock.Add(h.local + h.ticks)
		}
	}
	s := newEvSource(h.srv.URL)
	h.s = s
	s.parts = rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(rt, "parts")
	if o.StaticPart || o.PartsUndated || o.StaleParts {
		s.parts = max(s.parts, 2)
	}
	if o.UntilAhead {
		o.DateAhead = false // by that clock every window is over
		o.Batched = false   // and a list that is written before its end and served after it is no true one
	}
	if o.PartsUndated { // an old copy of a part that carries no time could not be told from a new one
		o.StaleParts = false
	}
	s.hasCL = o.Pruned || o.WholeSeconds || o.Unreadable || o.UntilAhead || o.NoFrom || o.Forgetful || o.Batched ||
		rapid.Bool().Draw(rt, "Change List")
	s.clIndex = s.hasCL && rapid.Bool().Draw(rt, "windows")
	s.fraction = o.WholeSeconds || rapid.Bool().Draw(rt, "fractions")
	bare := o.Bare || o.LengthOnly
	s.lastmods = bare && !s.hasCL || rapid.Bool().Draw(rt, "lastmod")
	s.validBy = rapid.IntRange(0, 2).Draw(rt, "validators")
	s.odd = *o
	s.windows = []time.Time{s.appNow()}
	h.interpose(func(w http.ResponseWriter, req *http.Request) bool { s.ServeHTTP(w, req); return true })
	if o.DateAhead {
		s.server = 24 * time.Hour
	}
	if o.AppSkew {
		s.app = rapid.SampledFrom([]time.Duration{2 * time.Minute, -2 * time.Minute, time.Hour, -time.Hour, 25 * time.Hour}).Draw(rt, "app skew")
		if o.UntilAhead { // behind, Date tells that windows are over which are not
			s.app = max(s.app, 0)
		}
		s.windows[0] = s.appNow()
	}
	if o.LocalSkew {
		h.local = rapid.SampledFrom([]time.Duration{time.Minute, -time.Minute, time.Hour, -time.Hour, 24 * time.Hour, -24 * time.Hour}).Draw(rt, "local skew")
	}
	h.put("keep", "anchor", "") // never deleted: what an empty list means is asked of the operator
	if o.StaticPart {
		h.put("s/old", "old", "")
	}
	for i := range rapid.IntRange(1, 4).Draw(rt, "resources") {
		h.put(fmt.Sprintf("r%d", i), h.body(), "")
	}
	h.say("%+v: parts %d, Change List %t, windows %t, fractions %t, lastmod %t, validators %d, app %s, local %s, server %s",
		o, s.parts, s.hasCL, s.clIndex, s.fraction, s.lastmods, s.validBy, s.app, h.local, s.server)
	s.clock = s.clock.Add(2*time.Minute + 500*time.Millisecond)
	s.roll()
	s.writeList(false, 0)
	s.writeChanges()
	return h
}

func (h *evWorld) say(format string, args ...any) {
	h.log = append(h.log, h.s.clock.Sub(evBegin).String()+" "+fmt.Sprintf(format, args...))
}

func (h *evWorld) fail(format string, args ...any) {
	h.rt.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(h.log, "\n"))
}

// shut closes state and mirror.
func (h *evWorld) shut() {
	if h.done != nil {
		h.done()
		h.done = nil
	}
}

func (h *evWorld) end() {
	h.shut()
	h.srv.Close()
	_ = os.RemoveAll(filepath.Dir(h.db))
}

// body is one that never was; most are as long as each other.
func (h *evWorld) body() string {
	h.s.serial++
	if h.s.serial%5 == 0 {
		return fmt.Sprintf("a longer body %03d", h.s.serial)
	}
	return fmt.Sprintf("body %03d", h.s.serial)
}

func (h *evWorld) put(name, body, bad string) {
	if !slices.Contains(h.names, name) {
		h.names = append(h.names, name)
	}
	if what := h.s.set(name, body, bad); what != "" {
		h.say("%s %s %q %s", name, what, body, bad)
	}
}

// pull is one run.
func (h *evWorld) pull() (Result, error) {
	if h.done == nil {
		h.eng, h.to, h.done = h.open()
	}
	h.s.mu.Lock()
	h.s.roll()
	h.s.clock = h.s.clock.Add(10 * time.Millisecond)
	h.s.mu.Unlock()
	asks, requests := h.s.asks, h.s.requests
	results, err := h.eng.Run(context.Background(), h.to, h.opts)
	h.tally.runs++
	h.tally.asks += h.s.asks - asks
	var res Result
	if len(results) > 0 {
		res = results[0]
		for _, r := range results[1:] {
			res.InStep = res.InStep && r.InStep
		}
	}
	if err != nil {
		res.InStep = false
	}
	problem := res.Problem
	if err != nil {
		problem = err.Error()
	}
	h.say("a run: %s, in step %t, %d fetched, %d deleted, %d gaps, %d requests, %d asked in vain; %s",
		res.Kind, res.InStep, res.Fetched, res.Deleted, res.GapsFound, h.s.requests-requests, h.s.asks-asks, problem)
	h.kept = append(h.kept, h.held())
	return res, err
}

// differs tells how the mirror differs from the Source, "" for not at all.
func (h *evWorld) differs() string {
	got := h.held()
	var out []string
	for _, n := range h.names {
		want := ""
		if r := h.s.files[n]; r != nil {
			want = r.body
		}
		if got[n] != want {
			out = append(out, fmt.Sprintf("%s is %q, its file is %q", n, want, got[n]))
		}
	}
	return strings.Join(out, "; ")
}

// calm lets the Source tell what is so, and then tell it no more.
func (h *evWorld) calm() {
	s := h.s
	s.mu.Lock()
	s.stale = nil
	h.wait(time.Minute)
	h.dice = h.last[:]
	if s.serving != len(s.lists)-1 || !s.hasCL || h.odd.Forgetful || h.odd.NoFrom {
		h.writeList()
	}
	s.writeChanges()
	h.say("calm")
	h.wait(10 * time.Minute)
	s.mu.Unlock()
	h.pull()
	s.mu.Lock()
	h.wait(time.Minute)
	s.mu.Unlock()
	res, _ := h.pull()
	differs := h.differs()
	if res.InStep && differs != "" {
		h.fail("in step, but %s", differs)
	}
	h.audited(differs)
	if !res.InStep {
		h.tally.honest++
	} else {
		h.tally.equal++
	}
	blind := h.odd.NoDate && h.odd.LocalSkew // what changed may lie in the future, so each reading of it is asked about
	if res.InStep && !h.odd.Bare && !h.odd.LengthOnly && !blind {
		before := h.s.asks
		if h.pull(); h.s.asks > before {
			h.fail("in step and nothing new: %d bodies were asked for again", h.s.asks-before)
		}
	}
	if *h.odd == (oddities{}) {
		h.wellBehaved(res, differs)
	}
}

// audited holds the auditor to the plain comparison by hash.
func (h *evWorld) audited(differs string) {
	if h.done == nil {
		h.eng, h.to, h.done = h.open()
	}
	asks, found := h.s.asks, []string(nil)
	rep, err := h.eng.Audit(context.Background(), h.to, h.opts, false, func(f Finding) error {
		found = append(found, f.Problem+" "+*cmp.Or(f.URI, f.Key))
		return nil
	})
	h.s.asks = asks
	switch {
	case err != nil:
		h.fail("the auditor: %v", err)
	case differs == "" && len(found) > 0:
		h.fail("the auditor finds fault with what is equal: %v", found)
	case differs != "" && rep.InStep:
		h.fail("the auditor passes over this: %s", differs)
	}
}

// wellBehaved holds what must be so for a Source without oddities, so that neither saying no nor asking about everything is
// a way out.
func (h *evWorld) wellBehaved(res Result, differs string) {
	if !res.InStep || differs != "" {
		h.fail("a well-behaved Source: in step %t, %s", res.InStep, differs)
	}
	if h.s.hasCL && h.s.asks > 0 { // without one, bodies are refused while the list is older than they are
		h.fail("a well-behaved Source: %d bodies were asked for again", h.s.asks)
	}
	if res.Requests > 5 {
		h.fail("a well-behaved Source: nothing new cost %d requests", res.Requests)
	}
	h.with(func(e *Engine, _ Target) {
		if n := h.onlySet(e).Baselines; h.s.hasCL && n > 1 {
			h.fail("a well-behaved Source: %d baselines", n)
		}
	})
}
