package sync

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"time"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/merge"
	"resyncd/sync/plan"
	"resyncd/sync/pull"
	"resyncd/sync/spill"
	"resyncd/sync/transfer"
)

// Engine runs Sources. It holds no state: a killed Engine costs repeated work only (CONTRIBUTING.md 3.1).
type Engine struct {
	Store  store.Store
	Log    *slog.Logger     // nil for none
	Holder string           // names this process in claims
	Now    func() time.Time // nil for time.Now

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
	// Plan receives the actions of a dry run, which changes no file. Its store must be a throw-away copy.
	Plan func(Planned) error
	// Ended receives each set's result.
	Ended func(Result) error
	// Progress must be quick and safe for concurrent use.
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
	// explained are what a dry run has told of or found right.
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
		Means: t.Means, Observe: s.observe.Observer, Hint: func(int64) {},
	}
	s.Source = &pull.Source{
		Site: site, Target: t, Limits: e.unordered, Full: o.Full, Dry: o.Plan != nil,
		From: cmp.Or(o.From, store.NoTime), Await: nobody, Keep: nobody,
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

// policySweep stands in Source.Policy until Target.SweepExtra is carried out.
const policySweep = "sweep-extra"

// claimPatience: a process that was just killed may still hold its lock.
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

func (s *session) leave(ctx context.Context, unclean bool) error {
	if unclean = unclean || s.AnyDoubt(); !unclean && !s.Unclean.Load() {
		return nil
	}
	return s.Store.Commit(ctx, &store.Commit{Claim: s.Claim, Source: &store.SourceChange{Unclean: &unclean}})
}

func (s *session) tidyUp(ctx context.Context) error {
	if s.Follows {
		return nil // the run of a Follower goes on
	}
	return s.leave(ctx, s.Look) // uncertain until a run has looked
}

const (
	tidyIdle   = 16
	tidySlices = 20
)

func (s *session) tidyState(ctx context.Context) error {
	if !s.Unclean.Load() && rand.N(tidyIdle) > 0 {
		return nil
	}
	for more, slices := true, 0; more && slices < tidySlices; slices++ {
		var err error
		if more, err = s.Store.Tidy(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Observer receives events for metrics and people. Its functions may be nil; they must be quick, safe for concurrent
// use, and call nothing of the Follower.
type Observer struct {
	transfer.Observer
	Mirrored   func(Mirrored)                        // a notification whose changes are all durable or owed
	Notified   func(verdict coverage.Verdict, n int) // notifications taken up
	Missed     func(setID, n int64)                  // changes that a subscription should have told of
	Odd        func(setID, n int64)                  // record values that violate their format
	Pulled     func(Result)                          // a concluded pull
	Discovered func(setID int64, how string)         // how a set was found (destination.SetOffer.Found)
	Unread     func(err error)                       // what a pull could not read
	Doubted    func(reason string)                   // a distrusted document (destination.ReaderOptions.Doubted)
}

// Mirrored is one notification that was carried out.
type Mirrored struct {
	transfer.Note
	Took time.Duration // from its delivery until everything was durable
}

func (o Observer) whole() *Observer {
	v := reflect.ValueOf(&o).Elem()
	for _, field := range reflect.VisibleFields(v.Type()) {
		if f := v.FieldByIndex(field.Index); f.Kind() == reflect.Func && f.IsNil() {
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { return nil }))
		}
	}
	return &o
}

// Result is a run's work on one set and the set's state. It is the line of `sync --json`.
type Result struct {
	Source     string  `json:"source"`
	Set        string  `json:"set"`
	Kind       string  `json:"kind"` // baseline, incremental, none
	Position   *string `json:"position"`
	Fetched    int64   `json:"fetched"`
	Unchanged  int64   `json:"unchanged"`
	Deleted    int64   `json:"deleted"`
	Failed     int64   `json:"failed"`
	Owed       int64   `json:"owed"`
	Held       int64   `json:"held"`
	Bytes      int64   `json:"bytes"`
	Requests   int64   `json:"requests"`
	Asked      int64   `json:"asked"` // resources that documents did not decide
	Refused    int64   `json:"refused"`
	GapsFound  int64   `json:"gaps_found"`
	GapsClosed int64   `json:"gaps_closed"`
	Odd        int64   `json:"odd"` // record values that violate their format
	Packages   int64   `json:"packages"`
	Batches    int64   `json:"batches"` // requests for many resources
	// Of Fetched, those that the Source was not asked for one by one.
	FromPackages   int64 `json:"from_packages"`
	Patched        int64 `json:"patched"`
	FromDuplicates int64 `json:"from_duplicates"`

	DryRun      bool    `json:"dry_run"`
	Seconds     float64 `json:"seconds"`
	InStep      bool    `json:"in_step"`
	Problem     string  `json:"-"` // "" if nothing
	Unavailable bool    `json:"-"` // no document of the set was usable
	*Would              // of a dry run only
}

// Would sums up a dry run of one set.
type Would struct {
	Fetch  int64 `json:"would_fetch"`
	Delete int64 `json:"would_delete"`
	Bytes  int64 `json:"would_bytes"` // as far as the Source gives lengths
}

func (w *Would) count(p Planned) {
	switch p.Action {
	case "fetch":
		w.Fetch++
		w.Bytes += max(p.Length, 0)
	case "delete":
		w.Delete++
	}
}

// MarshalJSON implements json.Marshaler: an absent problem is null.
func (r Result) MarshalJSON() ([]byte, error) {
	type line Result // without this method
	out := struct {
		line
		Problem *string `json:"problem"`
	}{line: line(r)}
	if r.Problem != "" {
		out.Problem = &r.Problem
	}
	return json.Marshal(out)
}

// Aliases for callers of this package.
type (
	Target     = pull.Target         // one Source with everything that a run of it needs
	Kind       = pull.Kind           // what a Source's URL leads to
	DeleteMode = transfer.DeleteMode // what happens to files that the Source deleted
	Progress   = transfer.Progress   // a step of a run
	Settled    = transfer.Settled    // how the work on one resource ended

	PackageProgress = transfer.PackageProgress // how a package of a dump comes along
)

// The states of packages.
const (
	PackageComing = transfer.PackageComing
	PackageInUse  = transfer.PackageInUse
	PackageOver   = transfer.PackageOver
	PackageFailed = transfer.PackageFailed
)

// KindFeed follows any topic.
const KindFeed = pull.KindFeed
