// Package inspect compares a mirror with its Source. It knows neither merge nor planner, and believes no version of the
// state.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/spill"
)

// Finding is one difference, a line of `audit --json` and `verify --json`.
type Finding struct {
	URI      *string `json:"uri"`
	Key      *string `json:"key"`
	Problem  string  `json:"problem"` // missing, changed, stale, extra, unlisted
	Expected *string `json:"expected"`
	Found    *string `json:"found"`
	Repaired bool    `json:"repaired"`
}

// The problems of a finding. Changed: the file is not what the state says. Stale: it is, but not what the Source has.
const (
	ProblemMissing  = "missing"
	ProblemChanged  = "changed"
	ProblemStale    = "stale"
	ProblemExtra    = "extra"
	ProblemUnlisted = "unlisted"
)

// Options are one Source and its mirror. The store maps URIs to mirror keys, and tells what is held, kept or refused.
type Options struct {
	Name, URL   string
	Feed        bool // the URL is that of a topic, whatever it looks like
	NoFeeds     bool // it is none
	Records     bool // entries edit records
	Dumps       bool // manifests stand in for lists that the Source does not have
	Follow      []string
	Hub, Topic  string
	Sets        []string
	Scope       []string
	Include     []string
	Exclude     []string
	Collections []string // resources without a link to one of them are left out
	Metadata    string   // "only": so are those that describe nothing; "without": those that do
	MaxResource int64
	Concurrency int
	RetryFor    time.Duration

	Client *fetch.Client
	Policy *fetch.Policy
	Mirror blob.Mirror
	Store  store.Store
	Log    *slog.Logger
	// Progress is told of files as they are looked at; nil for nobody.
	Progress func(files int64)
}

// Outcome is the result of an inspection. If Whole is false, something is undecided and the absence of findings proves
// nothing.
type Outcome struct {
	Checked int64
	Whole   bool
}

// Inspect compares every resource of the Source's current documents with the mirror, and every file with the documents.
// tell gets each difference, from one goroutine, after a second look: the Source may have changed meanwhile.
func Inspect(ctx context.Context, o Options, tell func(Finding) error) (Outcome, error) {
	i := &inspection{Options: o, tell: tell, seed: maphash.MakeSeed(), whole: true}
	i.Log = o.Log.With("source", o.Name)
	if err := i.begin(ctx); err != nil {
		return Outcome{}, err
	}
	again, err := i.pass(ctx, nil)
	if err == nil && len(again) > 0 {
		_, err = i.pass(ctx, again)
	}
	return Outcome{Checked: i.checked.Load(), Whole: i.whole}, err
}

// doubted are URIs, by hash, whose difference must be seen twice before it is told.
type doubted map[uint64]struct{}

// inspection is one call of Inspect.
type inspection struct {
	Options
	tell    func(Finding) error
	seed    maphash.Seed
	filter  *destination.Filter
	src     store.Source
	ids     map[string]int64 // of the sets that the state knows
	whole   bool
	checked atomic.Int64
}

func (i *inspection) begin(ctx context.Context) (err error) {
	if i.src, err = i.Store.Source(ctx, i.Name); err != nil {
		return err
	}
	known, err := i.Store.Sets(ctx, i.src.ID)
	if err != nil {
		return err
	}
	i.ids = make(map[string]int64, len(known))
	for _, s := range known {
		i.ids[s.CapabilityList] = s.ID
	}
	i.filter, err = destination.NewFilter(i.Include, i.Exclude)
	return err
}

// shelfHeld is how many bytes of what documents say are held in memory.
const shelfHeld = 4 << 20

// pass reads all documents and compares. only, if not nil, are the URIs that the first pass left open.
func (i *inspection) pass(ctx context.Context, only doubted) (again doubted, err error) {
	sets, err := i.offered(ctx)
	if err != nil {
		return nil, err
	}
	shelf := spill.NewSorter(shelfHeld, "")
	defer func() { err = errors.Join(err, shelf.Reset()) }()
	p := &pass{inspection: i, sets: sets, shelf: shelf, only: only, again: doubted{}, listed: spill.NewBitmap()}
	for n := range sets {
		if err := p.read(ctx, n); err != nil {
			return nil, err
		}
	}
	if err := p.compareListed(ctx); err != nil {
		return nil, err
	}
	return p.again, p.compareMirrored(ctx)
}

// reader asks past caches and without validators: what an earlier reading left behind must not speak for the Source.
func (i *inspection) reader() *destination.Reader {
	return destination.NewReader(destination.ReaderOptions{
		Client: i.Client, Policy: i.Policy, Log: i.Log, RetryFor: i.RetryFor, NoFeeds: i.NoFeeds,
		Topic: i.topicOptions(),
	}).Uncached()
}

func (i *inspection) topicOptions() destination.TopicOptions {
	o := destination.TopicOptions{Hub: i.Hub, Topic: i.Topic}
	if len(i.Scope) > 0 {
		if scope, err := destination.NewScope(i.URL, i.Scope); err == nil {
			o.Allowed = func(u *url.URL) bool { return scope.Contains(u.String()) }
		}
	}
	return o
}

// offered are the sets that the Source offers and that are to be looked at.
func (i *inspection) offered(ctx context.Context) ([]set, error) {
	r := i.reader()
	var offer *destination.Offer
	var err error
	if i.Feed {
		offer, err = destination.DiscoverTopic(ctx, r, i.URL, i.topicOptions())
	} else {
		offer, err = destination.Discover(ctx, r, i.URL, i.Sets...)
	}
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", fetch.RedactURL(i.URL), err)
	}
	if offer.Partial {
		i.incomplete("a part of the Source Description could not be read; there may be more sets")
	}
	var sets []set
	met := len(i.ids) == 0
	for n := range offer.Sets {
		o := &offer.Sets[n]
		if len(i.Sets) > 0 && !slices.Contains(i.Sets, o.ID) {
			continue
		}
		s, err := i.newSet(o)
		if err != nil {
			return nil, err
		}
		met = met || s.id != 0
		sets = append(sets, s)
	}
	switch {
	case len(sets) == 0:
		return nil, fmt.Errorf("audit %s: it offers none of the configured sets: see `resyncd discover %s`",
			i.Name, fetch.RedactURL(i.URL))
	case !met: // an error page in the place of a document must not make every file an unlisted one
		return nil, fmt.Errorf("audit %s: %s leads to none of the sets that are mirrored from it: run again later, "+
			"or give the new address if the Source has moved",
			i.Name, fetch.RedactURL(i.URL))
	}
	return sets, nil
}

// incomplete notes that the audit cannot vouch for the mirror, and why.
func (i *inspection) incomplete(why string, args ...any) {
	i.whole = false
	i.Log.Warn(why, args...)
}

func (i *inspection) hash(uri string) uint64 { return maphash.String(i.seed, uri) }
