package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/store"
)

// A hub is suspect when suspectAfter pulls in a row each found changes that it should have told of, and it told of
// nothing in between; a single one may only have been quicker than a push. The Source is then pulled more often, and
// the keeper asks the hub anew or tries the next one (CONTRIBUTING.md 3.8).
const (
	suspectAfter = 2
	suspectShare = 4 // of the usual pause between pulls
	suspectLeast = 10 * time.Second
)

var errNobodyFollows = errors.New("nobody follows the Source just now")

// miss is what one pull found that no push had told of.
type miss struct {
	source, set, n int64
}

// misses counts push misses in a row, by which a hub becomes suspect.
type misses struct {
	waiting chan miss

	mu    sync.Mutex
	inRow map[int64]map[int64]int // by Source and set, since the last delivery for the Source
}

func newMisses() *misses {
	return &misses{waiting: make(chan miss, 256), inRow: map[int64]map[int64]int{}}
}

// add takes note of misses; with too many waiting, those are not counted.
func (m *misses) add(source, set, n int64) {
	select {
	case m.waiting <- miss{source, set, n}:
	default:
	}
}

// count counts one and returns how many there are in a row.
func (m *misses) count(one miss) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inRow[one.source] == nil {
		m.inRow[one.source] = map[int64]int{}
	}
	m.inRow[one.source][one.set]++
	return m.inRow[one.source][one.set]
}

// delivered clears a Source; suspect reports whether one of its hubs had been.
func (m *misses) delivered(source int64) (suspect bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.inRow[source] {
		suspect = suspect || n >= suspectAfter
	}
	delete(m.inRow, source)
	return suspect
}

// suspects are the sets of a Source whose hub does not tell of changes.
func (m *misses) suspects(source int64) map[int64]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[int64]bool{}
	for set, n := range m.inRow[source] {
		if n >= suspectAfter {
			out[set] = true
		}
	}
	return out
}

// hubs watches whether hubs tell of changes, and has Sources pulled more often where they do not.
type hubs struct {
	d      *Daemon
	leases *leases
	misses *misses
	states states
	pacing sync.Mutex // held while a Source's pace is decided on and set
}

func newHubs(d *Daemon) *hubs { return &hubs{d: d, leases: newLeases(d.o.Now), misses: newMisses()} }

// load takes up what was agreed with hubs before the daemon started.
func (h *hubs) load(ctx context.Context) error {
	return errors.Join(h.leases.load(ctx, h.d.st), h.states.load(ctx, h.d.st))
}

// watch works through misses until ctx ends.
func (h *hubs) watch(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-h.misses.waiting:
			if err := h.missed(ctx, m); err != nil && ctx.Err() == nil {
				h.d.o.Log.Warn("push misses cannot be recorded", logging.Err(err))
			}
		}
	}
}

func (h *hubs) missed(ctx context.Context, m miss) error {
	d := h.d
	subs, err := d.st.Subscriptions(ctx, m.source, false)
	if err != nil {
		return err
	}
	suspect := h.misses.count(m) >= suspectAfter
	for i := range subs {
		if subs[i].SetID != m.set || subs[i].Kind == store.ChannelFramework || !subs[i].Live() {
			continue
		}
		if err := d.st.TallySubscription(ctx, subs[i].ID, store.Tally{PushMisses: m.n}); err != nil {
			return err
		}
		if !suspect {
			continue
		}
		d.metrics.Count(console.SuspectedHubs, d.sources.nameOf(m.source), "", 1)
		d.o.Log.Warn("a hub does not tell of changes: it is asked anew, and the Source pulled more often",
			logging.KeyHub, logging.URL(subs[i].Hub), "misses", subs[i].Missed+m.n)
		if err := d.keeper.Suspect(ctx, subs[i].ID); err != nil {
			return err
		}
	}
	if suspect {
		h.pullFaster(m.source)
	}
	return nil
}

// delivered takes note that a hub told of something.
func (h *hubs) delivered(source int64) {
	if h.misses.delivered(source) {
		h.pullNormally(source)
	}
}

// pullFaster has a Source pulled more often, because its hubs cannot be relied on, if that is still so: a notification
// may have come since.
func (h *hubs) pullFaster(source int64) {
	h.pacing.Lock()
	defer h.pacing.Unlock()
	r := h.d.sources.of(source)
	if r != nil && (h.leases.lacking(source) || len(h.misses.suspects(source)) > 0) {
		h.d.jobs.Shorten(source, max(pauseOf(r.source().Schedule, h.d.o.Now())/suspectShare, suspectLeast))
	}
}

// pullNormally ends that, unless a set of the Source has no hub.
func (h *hubs) pullNormally(source int64) {
	h.pacing.Lock()
	defer h.pacing.Unlock()
	if !h.leases.lacking(source) {
		h.d.jobs.Shorten(source, 0)
	}
}

// pauseOf is the usual pause between two scheduled pulls.
func pauseOf(s config.Schedule, now time.Time) time.Duration {
	next := s.Next(now)
	return s.Next(next).Sub(next)
}

// changed is told of each change of a subscription. When the last hub that told of a set's changes is lost, pulls take
// over at once (S-42, F25); when one is won, what nobody told of meanwhile is looked for.
func (h *hubs) changed(sub *store.Subscription) {
	h.count(sub)
	turn := h.leases.note(sub)
	if s := h.d.sources.runOf(sub.SourceID); s != nil && (turn == won || turn == lost) {
		s.f.Hint(sub.SetID)
	}
	switch turn {
	case lost:
		h.pullFaster(sub.SourceID)
	case won, left:
		h.pullNormally(sub.SourceID)
	}
}

// count counts what subscriptions come to.
func (h *hubs) count(sub *store.Subscription) {
	name := h.d.sources.nameOf(sub.SourceID)
	if name == "" {
		return
	}
	came, leased := h.states.note(sub)
	if came {
		h.d.metrics.Count(console.SubscriptionChanges, name, string(sub.State), 1)
	}
	if leased && sub.Granted < shortLease {
		h.d.metrics.Count(console.ShortLeases, name, "", 1)
	}
	h.d.board.changed(name)
}

// baseFile remembers, in data_dir, under which base URL hubs know us.
const baseFile = "callback.url"

// checkBase has every hub asked anew under the present base URL where the last daemon had another one: what hubs send
// to that is lost, and renewals may be weeks away.
func (h *hubs) checkBase(ctx context.Context, base string) error {
	path := filepath.Join(h.d.sources.config().DataDir, baseFile)
	last, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	was := strings.TrimSpace(string(last))
	if was == base {
		return nil
	}
	if was != "" {
		h.d.o.Log.Info("the base URL of callbacks is another than before: hubs are asked anew", "was", was, "is", base)
		if err := h.renewAll(ctx); err != nil {
			return err
		}
	}
	return os.WriteFile(path, []byte(base+"\n"), 0o600) // after that: a kill in between repeats it
}

// renewAll has all that is subscribed renewed soon; what the operator cancelled stays so.
func (h *hubs) renewAll(ctx context.Context) error {
	subs, err := h.d.st.Subscriptions(ctx, 0, false)
	if err != nil {
		return err
	}
	type channel struct {
		source int64
		topic  string
	}
	asked := map[channel]bool{}
	for i := range subs {
		c := channel{subs[i].SourceID, subs[i].Topic}
		if asked[c] || subs[i].State == store.SubOff || subs[i].State == store.SubUnsubscribing {
			continue
		}
		asked[c] = true
		if _, err := h.d.keeper.Renew(ctx, c.source, c.topic); err != nil {
			return err
		}
	}
	return nil
}

// unsubscribeRemoved unsubscribes what is left of Sources that are no longer configured: nobody would take up what
// their hubs send.
func (h *hubs) unsubscribeRemoved(ctx context.Context) error {
	all, err := h.d.st.Sources(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		if _, configured := h.d.sources.config().Source(all[i].Name); configured {
			continue
		}
		if err := h.d.keeper.DropSource(ctx, all[i].ID); err != nil {
			return err
		}
	}
	return nil
}
