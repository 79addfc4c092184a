// Package pull reads a Source's documents and notifications into wants and coverage. It knows neither when a pull is
// due nor who fetches the resources.
package pull

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"resyncd/destination"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/coverage"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
	"resyncd/sync/plan"
	"resyncd/sync/transfer"
)

// Source is one Source and the state that its readings share.
type Source struct {
	*transfer.Site
	Target Target
	Reader *destination.Reader
	Scopes scopes
	Limits *plan.Limits
	Full   bool // a baseline is always taken
	Dry    bool
	// Wide: this run or pull looks at the files of all resources.
	Wide bool
	// Recheck: the scope or filters changed, so refused resources are judged anew.
	Recheck bool
	// From is the position of new sets, which then get no baseline.
	From store.Micros
	// Offset is the Source's clock minus the local one. Only who has the turn may use it.
	Offset store.Micros
	// lag is the longest time seen between a change and its entry in a list (coverage.md 4, rule 4).
	lag store.Micros
	// Await passes the turn to others for a wait; Keep keeps it over waits.
	Await, Keep func() (end func())
}

// ClockError bounds how far the Source's clock is ahead of its last Date.
const ClockError = 2 * merge.Second

// SourceNow returns the Source's time, as far as its answers tell.
func (s *Source) SourceNow() store.Micros { return s.LocalNow() + s.Offset }

// answered returns the time of an answer, and learns the Source's clock from its Date.
func (s *Source) answered(date rsdoc.Micros) store.Micros {
	if !date.Known() {
		return s.LocalNow()
	}
	s.Offset = store.Micros(date) - s.LocalNow()
	return store.Micros(date)
}

type scopes struct{ rules sync.Map }

// Add keeps the rule of a set that has none yet.
func (s *scopes) Add(set int64, rule func(string) string) { s.rules.LoadOrStore(set, rule) }

// Of returns the rule of a set, nil for none.
func (s *scopes) Of(set int64) func(string) string {
	rule, _ := s.rules.Load(set)
	of, _ := rule.(func(string) string)
	return of
}

// scopeOf returns the rule of a set. A Follower keeps the rule, which every notification needs.
func (s *Source) scopeOf(set *store.Set, offer *destination.SetOffer) (func(uri string) string, error) {
	if rule := s.Scopes.Of(set.ID); rule != nil && s.Follows && offer.Err == nil {
		return rule, nil
	}
	return s.Target.Judge(offer)
}

// CoverageOf returns the coverage of a set.
func CoverageOf(s *store.Set) *coverage.Coverage {
	return &coverage.Coverage{Floor: s.Floor, Proven: s.Proven, Joint: s.Joint}
}

// Kind is what the URL of a Source leads to.
type Kind string

// KindAuto takes a feed only if the URL was given as one; KindFeed follows any topic.
const (
	KindAuto         Kind = "auto"
	KindResourceSync Kind = "resourcesync"
	KindFeed         Kind = "feed"
)

// Target is one Source with everything that a run needs.
type Target struct {
	Name string
	URL  string
	// Kind is the kind of URL, KindAuto if empty. Feeds have Records ("resource-finder"), Follow (mirrored link
	// relations), and Hub and Topic, which override discovery (S-12).
	Kind       Kind
	Records    string
	Follow     []string
	Hub, Topic string
	// Sets limits the run to these Capability Lists; empty means all.
	Sets []string
	// Scope are URI prefixes beside the Capability List's origin; Include and Exclude are URI globs.
	Scope, Include, Exclude []string
	parsed.Selection
	Dumps string // "auto" or "always", else off
	// Reach describes the allowed addresses (network.allow). A change tries refused resources anew.
	Reach string

	transfer.Means
	DeleteGuard float64 // share of the files, 0.2 is 20 %
	GapPatience time.Duration

	Mirror blob.Mirror // nil only in a dry run without mirror
	RootID string
	// Adopt: the mirror may hold files without rows. SweepExtra moves unlisted files to the trash (guarded).
	Adopt, SweepExtra bool
}

// Spent returns what the Source has cost the network so far.
func (t *Target) Spent() (requests, bytes int64) {
	if t.Policy != nil && t.Policy.Meter != nil { // the client serves other Sources too
		return t.Policy.Meter.Requests(), t.Policy.Meter.Bytes()
	}
	return t.Client.Requests(), t.Client.Bytes()
}

func (t *Target) allows(u *url.URL) bool {
	if len(t.Scope) == 0 {
		return false
	}
	scope, err := destination.NewScope(t.URL, t.Scope)
	return err == nil && scope.Contains(u.String())
}

// form names the mirrored parts of a feed beside its entries.
func (t *Target) form() string {
	return strings.Join(append(slices.Sorted(slices.Values(t.Follow)), t.Records), " ")
}

// PolicyDigest changes with the rules of refusal.
func (t *Target) PolicyDigest() string {
	var parts []string
	for _, list := range [][]string{t.Scope, t.Include, t.Exclude, {t.Reach}} {
		parts = append(parts, strings.Join(slices.Sorted(slices.Values(list)), "\x00"))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x01")))
	return hex.EncodeToString(sum[:8])
}

// Judge returns the rule that refuses URIs outside the scope or the filters.
func (t *Target) Judge(offer *destination.SetOffer) (func(uri string) string, error) {
	own := offer.ID
	if offer.Err != nil { // its ID may be anything and must not stop the other sets
		own = t.URL
	}
	prefixes := t.Scope
	if u, err := url.Parse(t.URL); err == nil && (t.Kind == KindFeed || offer.Topic != nil) {
		// The self link of a feed may have another scheme or port than its URL (S-11).
		prefixes = append(slices.Clip(prefixes), u.Scheme+"://"+u.Host+"/")
	}
	scope, err := destination.NewScope(own, prefixes)
	if err != nil {
		return nil, err
	}
	filter, err := t.filter()
	if err != nil {
		return nil, err
	}
	return func(uri string) string {
		if !scope.Contains(uri) {
			return "outside the scope of the Source: add its prefix to `scope` if it belongs to the set"
		}
		return filter(uri)
	}, nil
}

func (t *Target) filter() (func(uri string) string, error) {
	filter, err := destination.NewFilter(t.Include, t.Exclude)
	if err != nil {
		return nil, err
	}
	return func(uri string) string {
		if !filter.Passes(uri) {
			return "left out by `include` or `exclude`"
		}
		return ""
	}, nil
}

// Document returns what is remembered of a document, and one without URL if that is nothing.
func (s *Source) Document(ctx context.Context, url string) (store.Document, error) {
	d, err := s.Store.Document(ctx, s.SourceID, url)
	if errors.Is(err, store.ErrNotFound) {
		return s.NewDocument("", ""), nil
	}
	return d, err
}

// NewDocument returns the record of a document that was read now, without times of its own.
func (s *Source) NewDocument(url, kind string) store.Document {
	return store.Document{SourceID: s.SourceID, URL: url, Kind: kind, Read: s.LocalNow(),
		At: store.NoTime, From: store.NoTime, Until: store.NoTime, LastEntry: store.NoTime}
}

// span shows the evidence of coverage. No decision depends on one.
func (p *Puller) span(kind store.SpanKind, iv store.Interval, entries int64, document string) store.Span {
	now := p.LocalNow()
	return store.Span{
		SetID: p.Set.ID, Kind: kind, From: iv.From, Until: iv.Until, First: now, Last: now, Entries: entries,
		Document: document,
	}
}

// RecallJSON reads a remembered value; false for none.
func (s *Source) RecallJSON(ctx context.Context, key string, into any) (bool, error) {
	d, err := s.Document(ctx, key)
	if err != nil || len(d.Body) == 0 {
		return false, err
	}
	return json.Unmarshal(d.Body, into) == nil, nil // another version's form counts as unknown
}

// memo is the record of a value of strings and numbers, which json.Marshal never fails to write.
func (p *Puller) memo(key string, what any) store.Document {
	d := p.NewDocument(key, kindTopic)
	d.SetID, d.Complete = p.Set.ID, true
	d.Body, _ = json.Marshal(what)
	return d
}

func (p *Puller) rememberJSON(key string, what any) {
	p.pending.Documents = append(p.pending.Documents, p.memo(key, what))
}

// Recall implements destination.Memory.
func (s *Source) Recall(ctx context.Context, url string) (*destination.Document, error) {
	var doc destination.Document
	if found, err := s.RecallJSON(ctx, url, &doc); err != nil || !found || doc.URL != url {
		return nil, err
	}
	return &doc, nil
}

// Remember implements destination.Memory.
func (s *Source) Remember(ctx context.Context, d *destination.Document) error {
	known := *d
	known.ETag, known.LastModified = parsed.Lasting(d.ETag, d.LastModified, store.Micros(d.Date))
	body, err := json.Marshal(known)
	if err != nil {
		return fmt.Errorf("remember %s: %w", d.URL, err)
	}
	doc := s.NewDocument(d.URL, string(d.Head.Kind))
	doc.ETag, doc.LastModified = known.ETag, known.LastModified
	doc.At, doc.From, doc.Until = store.Micros(d.Head.At), store.Micros(d.Head.From), store.Micros(d.Head.Until)
	doc.Entries, doc.Complete, doc.Body = int64(len(d.Entries)), true, body
	// Repeatable: a power cut only costs a request without a condition, and a chain of documents waits for no disk.
	return s.Store.Commit(ctx, &store.Commit{Claim: s.Claim, Repeatable: true, Documents: []store.Document{doc}})
}
