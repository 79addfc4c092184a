package sync

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/plan"
	"resyncd/sync/pull"
	"resyncd/sync/spill"
	"resyncd/sync/transfer"
)

// Engine runs Sources. It holds no state: a killed Engine costs repeated work only (CONTRIBUTING.md 3.1).
type Engine struct {
	Store store.Store
	Log   *slog.Logger // nil for none
	// Holder names this process in claims.
	Holder string
	// Now is the local clock, nil for time.Now.
	Now func() time.Time

	unordered *plan.Limits // nil outside tests
}

func (e *Engine) log() *slog.Logger { return cmp.Or(e.Log, slog.New(slog.DiscardHandler)) }

func (e *Engine) now() func() time.Time {
	if e.Now == nil {
		return time.Now
	}
	return e.Now
}

// RunOptions say how a run differs from a plain catch-up.
type RunOptions struct {
	// Full forces a baseline.
	Full bool
	// From is the position for sets that have none; such sets get no baseline. 0 and NoTime stand for none.
	From store.Micros
	// RetryFor bounds the retries before a failure is left owed.
	RetryFor time.Duration
	// Plan, if set, receives each action of a dry run, which changes no file. The store must be a throw-away copy.
	Plan func(Planned) error
	// Ended, if set, receives each set's result.
	Ended func(Result) error
	// Progress, if set, must be quick and safe for concurrent use.
	Progress func(transfer.Progress)
}

// Planned is one action of a dry run.
type Planned struct {
	URI    string // "" if unknown
	Action string // fetch, delete, keep
	Key    string
	Length int64 // -1 if the Source gives none
	Had    bool  // a differing file exists
	Extra  bool  // no resource owns the file
}

// MarshalJSON implements json.Marshaler: a file without a URI shows its key.
func (p Planned) MarshalJSON() ([]byte, error) {
	line := struct {
		URI    *string `json:"uri"`
		Action string  `json:"action"`
		Key    *string `json:"key,omitempty"`
	}{&p.URI, p.Action, nil}
	if p.URI == "" {
		line.URI, line.Key = nil, &p.Key
	}
	return json.Marshal(line)
}

// CheckFrom refuses a position in the future, because no change before it would ever be fetched (F40).
func CheckFrom(from store.Micros, now time.Time) error {
	if !from.Known() || from <= store.MicrosOf(now)+merge.Skew {
		return nil
	}
	return errors.New("it lies in the future, and no change before it would ever be fetched")
}

// ErrStopped is returned for a Source that the operator paused.
var ErrStopped = errors.New("source is paused: resume it with `resyncd source resume NAME`")

// session is one run of one Source under its claim.
type session struct {
	*pull.Source
	o       RunOptions
	src     store.Source
	release func() error
	observe *Observer
	// sweep says that this run or a later one must still carry out Target.SweepExtra.
	sweep bool
	// explained are what a dry run has reported or found right, so that no later set does again.
	explained *spill.Bitmap
	would     Would
	noRule    string // why URIs of an unknown set are refused, "" where planning has judged them
}

func (e *Engine) begin(ctx context.Context, t Target, o RunOptions, observe Observer) (*session, error) {
	src, err := e.Store.EnsureSource(ctx, t.Name, t.URL)
	if err != nil {
		return nil, err
	}
	if src.Paused {
		return nil, ErrStopped
	}
	claim, release, err := e.claim(ctx, src.ID)
	if err != nil {
		return nil, err
	}
	if src, err = e.Store.Source(ctx, t.Name); err != nil { // the last holder may have changed it
		return nil, errors.Join(err, release())
	}
	s := &session{o: o, src: src, release: release, observe: observe.whole(), explained: spill.NewBitmap()}
	if o.Plan != nil {
		s.o.Plan = func(p Planned) error { s.would.count(p); return o.Plan(p) }
	}
	if o.Progress == nil {
		s.o.Progress = func(Progress) {}
	}
	site := &transfer.Site{
		Workset: transfer.NewWorkset(), Store: e.Store, SourceID: src.ID, Claim: claim, Now: e.now(), Mirror: t.Mirror,
		Log: e.log().With("source", t.Name), Look: t.Adopt || src.Unclean, Progress: s.o.Progress,
		Means: transfer.Means{
			Client: t.Client, Policy: t.Policy, Concurrency: t.Concurrency, MaxResource: t.MaxResource,
			Delete: t.Delete, TrashFor: t.TrashFor,
		},
		Observe: transfer.Observer{
			Settled: s.observe.Settled, Removed: s.observe.Removed, Halted: s.observe.Halted,
		},
		Hint: func(int64) {},
	}
	s.Source = &pull.Source{
		Site: site, Target: t, Limits: e.unordered, Full: o.Full, Dry: o.Plan != nil,
		From: cmp.Or(o.From, store.NoTime), Await: nobody, Keep: nobody,
		Told: pull.Readings{
			Skipped: s.observe.Skipped, Rotten: s.observe.Rotten, Held: s.observe.Held, Gap: s.observe.Gap,
		},
	}
	s.Content = s.ContentOfInline
	s.Rule = func(set int64) func(string) string {
		if rule := s.Scopes.Of(set); rule != nil {
			return rule
		}
		return func(string) string { return s.noRule }
	}
	policy := t.PolicyDigest()
	s.sweep = t.SweepExtra || src.Policy == policySweep
	s.Recheck = src.Policy != policy
	s.Reader = destination.NewReader(destination.ReaderOptions{
		Client: t.Client, Policy: t.Policy, Memory: s.Source, Log: s.Log, RetryFor: o.RetryFor,
		Topic: s.TopicOptions(), NoFeeds: t.Kind == pull.KindResourceSync, Doubted: s.observe.Doubted,
		Await: func() (resume func()) { return s.Await() },
	})
	change := &store.SourceChange{RootID: &t.RootID}
	if s.sweep {
		change.Policy = new(policySweep)
	}
	// Otherwise the first file change records the run.
	if src.RootID != t.RootID || s.Look || s.sweep {
		if err := s.Begun(ctx, change); err != nil {
			return nil, errors.Join(err, release())
		}
	}
	return s, nil
}

func nobody() (end func()) { return func() {} }

// policySweep stands in Source.Policy until Target.SweepExtra is carried out, even if the run is killed.
const policySweep = "sweep-extra"

// claimPatience is how long a claim is retried, because a process that was just killed may still hold its lock.
const claimPatience = time.Second

func (e *Engine) claim(ctx context.Context, source int64) (store.Claim, func() error, error) {
	const step = 50 * time.Millisecond
	for waited := time.Duration(0); ; waited += step {
		c, release, err := e.Store.Claim(ctx, source, e.Holder)
		var held *store.HeldError
		if !errors.As(err, &held) || waited >= claimPatience {
			return c, release, err
		}
		select {
		case <-time.After(step):
		case <-ctx.Done():
			return c, nil, ctx.Err()
		}
	}
}

func (s *session) discover(ctx context.Context, r *destination.Reader) (offer *destination.Offer, err error) {
	if s.Target.Kind == KindFeed {
		offer, err = destination.DiscoverTopic(ctx, r, s.Target.URL, s.TopicOptions())
	} else {
		offer, err = destination.Discover(ctx, r, s.Target.URL, s.Target.Sets...)
	}
	if err == nil {
		err = s.SameTopic(ctx, offer)
	}
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", fetch.RedactURL(s.Target.URL), err)
	}
	return offer, nil
}

func offerOf(offer *destination.Offer, set string) *destination.SetOffer {
	i := slices.IndexFunc(offer.Sets, func(o destination.SetOffer) bool { return o.ID == set })
	if i < 0 {
		return nil
	}
	return &offer.Sets[i]
}

func (s *session) choose(offer *destination.Offer) ([]destination.SetOffer, error) {
	if len(s.Target.Sets) == 0 {
		return offer.Sets, nil
	}
	var out []destination.SetOffer
	for _, want := range s.Target.Sets {
		o := offerOf(offer, want)
		if o == nil {
			return nil, fmt.Errorf("%s offers no set %s: see `resyncd discover %s`",
				s.Target.Name, want, fetch.RedactURL(s.Target.URL))
		}
		out = append(out, *o)
	}
	return out, nil
}

func (s *session) knowScopes(ctx context.Context) error {
	sets, err := s.Store.Sets(ctx, s.SourceID)
	for i := range sets {
		// A set that cannot be judged was never read.
		if scope, err := s.Target.Judge(&destination.SetOffer{ID: sets[i].CapabilityList}); err == nil {
			s.Scopes.Add(sets[i].ID, scope)
		}
	}
	return err
}

// recognise refuses a guessed list (robots.txt, a link) in place of the mirrored sets. Without it one error page could
// begin a second set whose wants nothing takes back (F58, F72).
func (s *session) recognise(ctx context.Context, offer *destination.Offer) error {
	if s.Target.Kind == KindFeed {
		return nil
	}
	known, err := s.Store.Sets(ctx, s.SourceID)
	if err != nil {
		return err
	}
	described := false
	for i := range known {
		for _, o := range offer.Sets {
			if !o.Bare || o.ID == s.Target.URL || o.ID == known[i].CapabilityList {
				return nil
			}
		}
		doc, err := s.Document(ctx, known[i].CapabilityList)
		if err != nil {
			return err
		}
		described = described || doc.Kind == string(rsdoc.KindCapabilityList)
	}
	if !described || len(offer.Sets) == 0 {
		return nil
	}
	if err := errors.Join(s.missing(ctx, offer), s.Reader.Forget(ctx, s.Target.URL)); err != nil {
		return err
	}
	return fmt.Errorf("%s no longer leads to the sets that are mirrored from it, only to %s: nothing was changed; "+
		"run again later, or give that address itself if the Source has moved there",
		fetch.RedactURL(s.Target.URL), fetch.RedactURL(offer.Sets[0].ID))
}

// missing reports a set after two reads without it (F71).
func (s *session) missing(ctx context.Context, offer *destination.Offer) error {
	if len(s.Target.Sets) > 0 {
		return nil
	}
	sets, err := s.Store.Sets(ctx, s.SourceID)
	if err != nil {
		return err
	}
	var c store.Commit
	for i := range sets {
		set := &sets[i]
		gone := set.Gone + 1
		if offerOf(offer, set.CapabilityList) != nil {
			gone = 0
		}
		if gone == set.Gone {
			continue
		}
		set.Gone = gone
		if gone >= 2 {
			set.Problem = "the Source no longer offers this set; its files stay until you run `resyncd source forget`"
			set.InStep, set.Cause = false, ""
			s.Log.Warn("the Source no longer offers a set", "set", set.CapabilityList, "reads", gone)
		}
		c.Sets = append(c.Sets, store.SetChange{ID: set.ID, State: pull.StateOf(set)})
	}
	if len(c.Sets) == 0 {
		return nil
	}
	c.Claim = s.Claim
	return s.Store.Commit(ctx, &c)
}
