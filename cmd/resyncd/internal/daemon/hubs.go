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

// hubs knows what hubs do for Sources, and has a Source pulled more often where they do not tell of its changes.
type hubs struct {
	d       *Daemon
	missing chan miss // push misses that are yet to be counted

	mu  sync.Mutex
	set map[int64]map[int64]*setHubs // by Source and set
}

// miss is what one pull found that no push had told of.
type miss struct {
	source, set, n int64
}

// setHubs is what hubs do for one set.
type setHubs struct {
	subs map[int64]lastSeen
	// bare: it lost its last lease, so that pulls have to stand in for pushes.
	bare bool
	// missed counts the pulls in a row that found changes of which no hub had told, since the last delivery.
	missed int
}

// lastSeen is how a subscription was when it was last told of.
type lastSeen struct {
	state    store.SubscriptionState
	verified store.Micros
	wanted   bool         // for changes
	since    store.Micros // when its lease began, which has held without a break; NoTime while it has none
}

// turn is what a change of a subscription means for its set.
type turn uint8

const (
	noTurn turn = iota
	won         // a hub tells of its changes, and none did before
	lost        // no hub does any more, although one should
	left        // none is to
)

// shortLease is from when a lease is worth a remark, in seconds (F23).
const shortLease = 60

func newHubs(d *Daemon) *hubs {
	return &hubs{d: d, missing: make(chan miss, 256), set: map[int64]map[int64]*setHubs{}}
}

// load takes up what was agreed with hubs before the daemon started: held at least since it was last verified.
func (h *hubs) load(ctx context.Context) error {
	subs, err := h.d.st.Subscriptions(ctx, 0, false)
	for i := range subs {
		h.note(&subs[i], subs[i].Verified)
	}
	return err
}

// of is what is known of a set. h.mu is held.
func (h *hubs) of(source, set int64) *setHubs {
	if h.set[source] == nil {
		h.set[source] = map[int64]*setHubs{}
	}
	if h.set[source][set] == nil {
		h.set[source][set] = &setHubs{subs: map[int64]lastSeen{}}
	}
	return h.set[source][set]
}

// note takes a subscription down as it is at now. came: it is in another state than before; leased: a lease began.
func (h *hubs) note(sub *store.Subscription, now store.Micros) (turn turn, came, leased bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	set := h.of(sub.SourceID, sub.SetID)
	before, known := set.subs[sub.ID]
	if !known {
		before.verified, before.since = store.NoTime, store.NoTime
	}
	_, held := set.lease()
	after := lastSeen{state: sub.State, verified: sub.Verified, since: store.NoTime}
	switch {
	case sub.Kind == store.ChannelFramework:
	case sub.State == store.SubOff, sub.State == store.SubUnsubscribing, sub.State == store.SubGone:
	default:
		after.wanted = true
		if sub.Live() {
			if after.since = before.since; !after.since.Known() {
				after.since = now
			}
		}
	}
	came = before.state != after.state
	if set.subs[sub.ID] = after; after.state == store.SubGone { // nothing follows on that
		delete(set.subs, sub.ID)
	} else {
		leased = after.verified.Known() && after.verified != before.verified
	}
	if sub.Kind != store.ChannelFramework {
		turn = set.turned(held.Known())
	}
	return turn, came, leased
}

// lease says whether a hub is to tell of the set's changes, and since when one has had a lease for that.
func (s *setHubs) lease() (wanted bool, since store.Micros) {
	since = store.NoTime
	for _, sub := range s.subs {
		wanted = wanted || sub.wanted
		since = store.Earliest(since, sub.since)
	}
	return wanted, since
}

func (s *setHubs) turned(held bool) turn {
	wanted, since := s.lease()
	switch {
	case !wanted:
		s.bare = false
		return left
	case held == since.Known():
		return noTurn
	case since.Known():
		s.bare = false
		return won
	}
	s.bare = true
	return lost
}

// since is FollowOptions.Subscribed of a Source.
func (h *hubs) since(source int64) func(set int64) store.Micros {
	return func(set int64) store.Micros {
		h.mu.Lock()
		defer h.mu.Unlock()
		known := h.set[source][set]
		if known == nil {
			return store.NoTime
		}
		_, since := known.lease()
		return since
	}
}

// add takes note of misses; with too many waiting, those are not counted.
func (h *hubs) add(source, set, n int64) { offer(h.missing, miss{source, set, n}) }

// count counts one and reports whether the hub of the set is suspect.
func (h *hubs) count(m miss) (suspect bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	set := h.of(m.source, m.set)
	set.missed++
	return set.missed >= suspectAfter
}

// suspects are the sets of a Source whose hub does not tell of changes.
func (h *hubs) suspects(source int64) (sets []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, set := range h.set[source] {
		if set.missed >= suspectAfter {
			sets = append(sets, id)
		}
	}
	return sets
}

// delivered takes note that a hub told of something.
func (h *hubs) delivered(source int64) {
	h.mu.Lock()
	suspect := false
	for _, set := range h.set[source] {
		suspect = suspect || set.missed >= suspectAfter
		set.missed = 0
	}
	h.mu.Unlock()
	if suspect {
		h.pace(source, false)
	}
}

// pace has a Source pulled more often while a set lost its last lease, with suspected also while a hub is suspect; else
// at its usual pace. It is decided on and set under one lock: a notification may come at any time.
func (h *hubs) pace(source int64, suspected bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	unreliable := false
	for _, set := range h.set[source] {
		unreliable = unreliable || set.bare || suspected && set.missed >= suspectAfter
	}
	pause := time.Duration(0)
	if r := h.d.sources.of(source); r != nil && unreliable {
		pause = max(pauseOf(r.src.Load().Schedule, h.d.o.Now())/suspectShare, suspectLeast)
	}
	h.d.jobs.Shorten(source, pause)
}

// watch works through misses until ctx ends.
func (h *hubs) watch(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-h.missing:
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
	suspect := h.count(m)
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
		h.pace(m.source, true)
	}
	return nil
}

// pauseOf is the usual pause between two scheduled pulls.
func pauseOf(s config.Schedule, now time.Time) time.Duration {
	next := s.Next(now)
	return s.Next(next).Sub(next)
}

// changed is told of each change of a subscription. When the last hub that told of a set's changes is lost, pulls take
// over at once (S-42, F25); when one is won, what nobody told of meanwhile is looked for.
func (h *hubs) changed(sub *store.Subscription) {
	turn, came, leased := h.note(sub, store.MicrosOf(h.d.o.Now()))
	if name := h.d.sources.nameOf(sub.SourceID); name != "" {
		if came {
			h.d.metrics.Count(console.SubscriptionChanges, name, string(sub.State), 1)
		}
		if leased && sub.Granted < shortLease {
			h.d.metrics.Count(console.ShortLeases, name, "", 1)
		}
		h.d.board.changed(name)
	}
	if turn == won || turn == lost {
		h.d.hint(sub.SourceID, sub.SetID)
	}
	if turn != noTurn {
		h.pace(sub.SourceID, false)
	}
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
	for i := range subs {
		if subs[i].State == store.SubOff || subs[i].State == store.SubUnsubscribing {
			continue
		}
		if _, err := h.d.keeper.Renew(ctx, subs[i].SourceID, subs[i].Topic); err != nil {
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
