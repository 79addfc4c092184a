package sync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/merge"
	"resyncd/sync/spill"
	"resyncd/sync/transfer"
)

// Engine runs Sources. It holds no state of its own: everything lives in the store and the mirrors, so any number of
// Engines may exist and a killed one costs repeated work only (CONTRIBUTING.md 3.1).
type Engine struct {
	Store store.Store
	Log   *slog.Logger
	// Holder names this process in claims, for people.
	Holder string
	// Now is the local clock.
	Now func() time.Time

	unordered *gatherLimits // nil for those that hold; others are for tests
}

// Kind is what the URL of a Source leads to.
type Kind string

// The kinds. KindAuto takes a feed for one only where it was given as such; KindFeed follows any topic.
const (
	KindAuto         Kind = "auto"
	KindResourceSync Kind = "resourcesync"
	KindFeed         Kind = "feed"
)

// Target is one Source with everything that a run of it needs.
type Target struct {
	Name string
	URL  string
	// Kind is what the URL leads to; the zero value is KindAuto. Records, Follow, Hub and Topic are for feeds: records that
	// entries edit ("resource-finder"), the links of entries that are mirrored too (enclosure, alternate), and what overrides
	// discovery (S-12).
	Kind       Kind
	Records    string
	Follow     []string
	Hub, Topic string
	// Sets limits the run to these Capability Lists; empty means all that are offered.
	Sets []string
	// Scope are URI prefixes beside the Capability List's own origin that loc may lie under; Include and Exclude are
	// URI globs.
	Scope, Include, Exclude []string
	// Reach describes the addresses that may be dialled (network.allow): when it changes, what was refused is tried anew.
	Reach string

	Delete      transfer.DeleteMode
	TrashFor    time.Duration
	DeleteGuard float64 // share of the files, 0.2 is 20 %
	GapPatience time.Duration
	MaxResource int64 // bytes, 0 unlimited
	Concurrency int   // requests to one host at once

	Client *fetch.Client
	Policy *fetch.Policy
	Mirror blob.Mirror // nil only in a dry run of a mirror that does not exist yet
	RootID string
	// Adopt: the mirror may hold files that no row knows (a folder that was there before, a lost state database), so the
	// disk is looked at before anything is fetched. SweepExtra: files that no list names go to the trash (guarded).
	Adopt, SweepExtra bool
}

// spent is what the Source has cost the network so far.
func (t *Target) spent() (requests, bytes int64) {
	if t.Policy != nil && t.Policy.Meter != nil { // the client serves other Sources too
		return t.Policy.Meter.Requests(), t.Policy.Meter.Bytes()
	}
	return t.Client.Requests(), t.Client.Bytes()
}

// RunOptions say how one run differs from a plain catch-up.
type RunOptions struct {
	// Full takes a baseline even if none is needed.
	Full bool
	// From is the position for sets that have none; they get no baseline then.
	From store.Micros
	// RetryFor is how long failures are retried before they are left owed.
	RetryFor time.Duration
	// Plan, if set, makes it a dry run: nothing is fetched, placed or removed, each planned action is reported instead.
	// The store must be a throw-away copy.
	Plan func(Planned) error
	// Ended, if set, is told of each set as it ends.
	Ended func(Result) error
	// Progress, if set, is told of work as it happens; it must be quick and safe for concurrent use.
	Progress func(transfer.Progress)
}

// Planned is one action of a dry run.
type Planned struct {
	URI    string // "" for a file of which nobody can tell
	Action string // fetch, delete, keep
	Key    string
	Length int64 // of what is fetched, as the Source tells it; -1 if it does not
	Had    bool  // a file is there that differs
	Extra  bool  // no resource owns the file
}

// MarshalJSON implements json.Marshaler: a file that has no URI is told by its key.
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

// CheckFrom refuses a position in the future: every change until then would count as known, and nothing would ever be fetched
// (F40).
func CheckFrom(from store.Micros, now time.Time) error {
	if !from.Known() || from <= store.MicrosOf(now)+merge.Skew {
		return nil
	}
	return errors.New("it lies in the future, and no change before it would ever be fetched")
}

// ErrStopped is returned for a Source that the operator paused.
var ErrStopped = errors.New("source is paused: resume it with `resyncd source resume NAME`")

// Run catches one Source up: discover, then each set in turn. The results are those of the sets that were worked on, also
// when an error is returned. The error is a *store.HeldError, store.ErrFenced, ctx's error, a failure of store or disk, or
// a *destination.Error when nothing usable was found; what went wrong within a set stands in its Result.
func (e *Engine) Run(ctx context.Context, t Target, o RunOptions) ([]Result, error) {
	if err := CheckFrom(o.From, e.Now()); err != nil {
		return nil, fmt.Errorf("begin at %s: %w", o.From.Time().UTC().Format(time.RFC3339), err)
	}
	s, err := e.begin(ctx, t, o)
	if err != nil {
		return nil, err
	}
	defer s.release()
	if err := s.beginLook(ctx); err != nil {
		return nil, err
	}
	offer, err := s.discover(ctx)
	if err != nil {
		return nil, s.nothingFound(ctx, err)
	}
	offered, err := s.choose(offer)
	if err != nil {
		return nil, s.nothingFound(ctx, sourceError{err})
	}
	if err = s.recognise(ctx, offer); err == nil {
		err = s.knowScopes(ctx)
	}
	if err != nil {
		return nil, err
	}
	var results []Result
	for i := range offered {
		var last *destination.Offer
		if i == len(offered)-1 {
			last = offer
		}
		r, err := s.runSet(ctx, &offered[i], last)
		results = append(results, r)
		if err == nil && o.Ended != nil {
			err = o.Ended(r)
		}
		if err != nil {
			return results, err
		}
	}
	if err := s.end(ctx, offer); err != nil {
		return results, err
	}
	return results, nil
}

// session is one run of one Source under its claim.
type session struct {
	*Engine
	t       Target
	o       RunOptions
	src     store.Source
	claim   store.Claim
	release func() error
	reader  *destination.Reader
	log     *slog.Logger
	// wide: this run, or pull, looks at the files of all resources (look.go).
	wide bool
	// recheck: the scope or filters changed since the last run, so refused resources are judged anew.
	recheck bool
	site    *transfer.Site
	halted  bool // the disk failed in some set
	// scopes are the rules by which URIs are refused, by set; empty where no set is pulled.
	scopes scopes
	// observe hears of what happens, in a Follower.
	observe Observer
	// turn is there in a Follower only.
	turn *turn
	// offset is the Source's clock against ours in microseconds, as its last answer told; 0 before. Only the goroutine
	// that reads documents, or who has the turn, uses it.
	offset store.Micros
	// lag is the longest time seen between a change and its entry in a list (coverage.md 4, rule 4).
	lag store.Micros
	// gapTold hears of gaps as they are recorded, in a Follower.
	gapTold func(store.Gap)
	// sweep: files that no list names are still to be looked for (Target.SweepExtra), by this run or, until one has read
	// every set whole, by a later one.
	sweep bool
	// requests, bytes were counted by the client when the last result was drawn up, so that discovery counts too.
	requests, bytes int64
	// explained are the resources that a dry run has told of, or found right: what one set owes is still due when the next is.
	explained *spill.Bitmap
	// failing is what failed last when it was tried in this run, of any set; a Follower has its own.
	failing *spill.Bitmap
	would   Would // what a dry run has told since the last result
}

// worksite is what the work on files needs of a session.
func (s *session) worksite() *transfer.Site {
	t := &s.t
	at := &transfer.Site{
		Workset: transfer.NewWorkset(), Store: s.Store, SourceID: s.src.ID, Claim: s.claim, Log: s.log, Now: s.Now, Mirror: t.Mirror,
		Means: transfer.Means{
			Client: t.Client, Policy: t.Policy, Concurrency: t.Concurrency, MaxResource: t.MaxResource, Delete: t.Delete,
			TrashFor: t.TrashFor,
		},
		Progress: s.o.Progress, Rule: s.scopes.of, Content: s.contentOfInline,
	}
	if t.Mirror != nil && s.o.Plan == nil {
		t.Mirror = at.Watch()
	}
	return at
}

func (e *Engine) begin(ctx context.Context, t Target, o RunOptions) (*session, error) {
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
	if src, err = e.Store.Source(ctx, t.Name); err != nil { // as the last holder left it
		return nil, errors.Join(err, release())
	}
	s := &session{Engine: e, t: t, o: o, src: src, claim: claim, release: release, explained: spill.NewBitmap(), failing: spill.NewBitmap()}
	if o.Plan != nil {
		s.o.Plan = func(p Planned) error { s.would.count(p); return o.Plan(p) }
	}
	s.log = e.Log.With("source", t.Name)
	s.site = s.worksite()
	s.requests, s.bytes = t.spent()
	s.site.Look = t.Adopt || src.Unclean
	policy := t.policyDigest()
	s.sweep = t.SweepExtra || src.Policy == policySweep
	s.recheck = src.Policy != policy
	s.reader = destination.NewReader(destination.ReaderOptions{
		Client: t.Client, Policy: t.Policy, Memory: &memory{s: s}, Log: s.log, RetryFor: o.RetryFor, Topic: s.topicOptions(),
		NoFeeds: t.Kind == KindResourceSync, Doubted: func(reason string) { s.observe.doubted(reason) },
		Await: s.await,
	})
	change := &store.SourceChange{RootID: &t.RootID}
	if pending := policySweep; s.sweep {
		change.Policy = &pending
	}
	if src.RootID != t.RootID || s.site.Look || s.sweep { // else the first change of a file says so
		if err := s.site.Begun(ctx, change); err != nil {
			return nil, errors.Join(err, release())
		}
	}
	return s, nil
}

// policySweep stands in Source.Policy until a run has carried out Target.SweepExtra, which only the first run after the
// loss of the state is told: a kill in between must not leave the files there for ever.
const policySweep = "sweep-extra"

// claimPatience is how long a claim is asked for again: a process that was just killed may still be writing its last bytes
// inside the kernel, and lets go of its lock only then.
const claimPatience = time.Second

func (e *Engine) claim(ctx context.Context, source int64) (store.Claim, func() error, error) {
	const step = 50 * time.Millisecond
	for waited := time.Duration(0); ; waited += step {
		c, release, err := e.Store.Claim(ctx, source, e.Holder)
		var held *store.HeldError
		if !errors.As(err, &held) || waited >= claimPatience {
			return c, release, err
		}
		if err := pause(ctx, step); err != nil {
			return c, nil, err
		}
	}
}

func (s *session) discover(ctx context.Context) (*destination.Offer, error) {
	return s.discoverBy(ctx, s.reader)
}

// discoverBy is discover by another reader.
func (s *session) discoverBy(ctx context.Context, r *destination.Reader) (offer *destination.Offer, err error) {
	if s.t.Kind == KindFeed {
		offer, err = destination.DiscoverTopic(ctx, r, s.t.URL, s.topicOptions())
	} else {
		offer, err = destination.Discover(ctx, r, s.t.URL, s.t.Sets...)
	}
	if err == nil {
		err = s.sameTopic(ctx, offer)
	}
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", fetch.RedactURL(s.t.URL), err)
	}
	return offer, nil
}

// choose picks the configured sets out of the offered ones.
func (s *session) choose(offer *destination.Offer) ([]destination.SetOffer, error) {
	if len(s.t.Sets) == 0 {
		return offer.Sets, nil
	}
	var out []destination.SetOffer
	for _, want := range s.t.Sets {
		found := false
		for _, o := range offer.Sets {
			if o.ID == want {
				out, found = append(out, o), true
			}
		}
		if !found {
			return nil, fmt.Errorf("%s offers no set %s: see `resyncd discover %s`", s.t.Name, want, fetch.RedactURL(s.t.URL))
		}
	}
	return out, nil
}

// knowScopes draws up the scopes of the sets known so far; runSet adds those of new ones.
func (s *session) knowScopes(ctx context.Context) error {
	sets, err := s.Store.Sets(ctx, s.src.ID)
	for i := range sets {
		if scope, err := s.t.judge(&destination.SetOffer{ID: sets[i].CapabilityList}); err == nil { // else nothing of it was ever read
			s.scopes.add(sets[i].ID, scope)
		}
	}
	return err
}

// recognise refuses to take a list that was only guessed (robots.txt, a link) for the Source, in place of the sets that
// are mirrored from it: one error page where its Capability List should be would else begin a second set, whose wants
// nothing ever takes back (F58, F72). The next run discovers anew.
func (s *session) recognise(ctx context.Context, offer *destination.Offer) error {
	if s.t.Kind == KindFeed {
		return nil
	}
	known, err := s.Store.Sets(ctx, s.src.ID)
	if err != nil {
		return err
	}
	described := false
	for i := range known {
		for _, o := range offer.Sets {
			if !o.Bare || o.ID == s.t.URL || o.ID == known[i].CapabilityList {
				return nil
			}
		}
		doc, err := s.Store.Document(ctx, s.src.ID, known[i].CapabilityList)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		described = described || err == nil && doc.Kind == string(rsdoc.KindCapabilityList)
	}
	if !described || len(offer.Sets) == 0 {
		return nil
	}
	if err := errors.Join(s.missing(ctx, offer), s.reader.Forget(ctx, s.t.URL)); err != nil {
		return err
	}
	return fmt.Errorf("%s no longer leads to the sets that are mirrored from it, only to %s: nothing was changed; run again later, "+
		"or give that address itself if the Source has moved there", fetch.RedactURL(s.t.URL), fetch.RedactURL(offer.Sets[0].ID))
}

// missing counts the reads in which a known set was not offered; after two it is reported (F71). Nothing is deleted.
func (s *session) missing(ctx context.Context, offer *destination.Offer) error {
	if len(s.t.Sets) > 0 {
		return nil
	}
	sets, err := s.Store.Sets(ctx, s.src.ID)
	if err != nil {
		return err
	}
	offered := map[string]bool{}
	for _, o := range offer.Sets {
		offered[o.ID] = true
	}
	var c store.Commit
	for i := range sets {
		set := &sets[i]
		gone := 0
		if !offered[set.CapabilityList] {
			gone = set.Gone + 1
		}
		if gone == set.Gone {
			continue
		}
		set.Gone = gone
		if gone >= 2 {
			set.Problem = "the Source no longer offers this set; its files stay until you run `resyncd source forget`"
			set.InStep, set.Cause = false, ""
			s.log.Warn("the Source no longer offers a set", "set", set.CapabilityList, "reads", gone)
		}
		c.Sets = append(c.Sets, store.SetChange{ID: set.ID, State: stateOf(set)})
	}
	if len(c.Sets) == 0 {
		return nil
	}
	c.Claim = s.claim
	return s.Store.Commit(ctx, &c)
}

// stateOf copies the fields of a set that the engine owns.
func stateOf(s *store.Set) *store.SetState {
	return &store.SetState{
		Floor: s.Floor, Estimated: s.Estimated, Flawed: s.Flawed, Generation: s.Generation, Baselines: s.Baselines, Proven: s.Proven, Joint: s.Joint,
		Gone: s.Gone, InStep: s.InStep, Problem: s.Problem, Cause: s.Cause, LastPull: s.LastPull,
	}
}
