package pull

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"resyncd/destination"
	"resyncd/destination/feed"
	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
	"resyncd/sync/plan"
	"resyncd/sync/transfer"
	"resyncd/sync/window"
)

// Keys of a topic's memory, which no URL can equal. The rows lie beside those of documents.
const (
	TopicState  = "topic "     // + URL: destination.TopicState
	topicSet    = "topic set " // + the URL that was asked for: its set, as setOfTopic
	setOfTopic  = "set"
	TopicWindow = "window " // + the set's identity: the feed at the last pull
	topicPushed = "pushed " // + the set's id: its standing
	kindTopic   = "topic"
)

// TopicOptions returns the options of discovery.
func (s *Source) TopicOptions() destination.TopicOptions {
	return destination.TopicOptions{Hub: s.Target.Hub, Topic: s.Target.Topic, Allowed: s.Target.allows,
		Recall: s.recallTopic}
}

// recallTopic returns the last reading of a URL, without validators if all is to be read anew.
func (s *Source) recallTopic(ctx context.Context, url string) (*destination.TopicState, error) {
	d, err := s.Document(ctx, TopicState+url)
	var st destination.TopicState
	if err != nil || json.Unmarshal(d.Body, &st) != nil || st.URL != url {
		return nil, err
	}
	anew := s.Wide || s.Recheck
	if !anew && d.SetID != 0 {
		if anew, err = s.doubtful(ctx, d.SetID); err != nil {
			return nil, err
		}
	}
	if anew {
		st.ETag, st.LastModified = "", ""
	}
	return &st, nil
}

// doubtful reports whether a set may differ from its unchanged topic (P9).
func (s *Source) doubtful(ctx context.Context, set int64) (bool, error) {
	stood, err := s.standingOf(ctx, set)
	if err != nil || stood.Last != 0 || stood.NoOrder || stood.Form != s.Target.form() {
		return true, err
	}
	lost, _, err := s.LostContent(ctx, set)
	return lost, err
}

type standing struct {
	// Last is when a notification last told of entries (local); 0 once a later reading checked them.
	Last store.Micros `json:"last"`
	// Pushed counts entries pushed since the last reading, Window the entries that it showed.
	Pushed int `json:"pushed,omitempty"`
	Window int `json:"window,omitempty"`
	// Ended counts deletions by a hub that no reading has checked.
	Ended int64 `json:"ended,omitempty"`
	// Told are entries whose state only a hub told; Many says that some are left out.
	Told []told `json:"told,omitempty"`
	Many bool   `json:"many,omitempty"`
	// NoOrder: all pages are read each time, because they are not newest first.
	NoOrder bool `json:"no_order,omitempty"`
	// Form is the Target.form of the last reading.
	Form string `json:"form,omitempty"`
}

// told is an entry that a hub changed: its key, its instant, and the local time of the push.
type told struct {
	Key  uint64       `json:"k"`
	At   store.Micros `json:"at"`
	Push store.Micros `json:"p"`
}

// toldMost bounds Told (P8).
const toldMost = 2000

// ripe returns the entries that the feed had time to show.
func (s *standing) ripe(now store.Micros) map[uint64]told {
	ripe := map[uint64]told{}
	for _, t := range s.Told {
		if now-t.Push >= merge.FeedLag {
			ripe[t.Key] = t
		}
	}
	return ripe
}

// Busy reports whether the feed must be read soon, before its window moves past the last reading.
func (s *standing) Busy() bool { return s.Window > 0 && 2*s.Pushed >= s.Window }

func pushedKey(set int64) string { return topicPushed + strconv.FormatInt(set, 10) }

func (s *Source) standingOf(ctx context.Context, set int64) (st standing, err error) {
	_, err = s.RecallJSON(ctx, pushedKey(set), &st)
	return st, err
}

func (p *Puller) settle(ctx context.Context, w *walk) error {
	was, err := p.standingOf(ctx, p.Set.ID)
	if err != nil {
		return err
	}
	now := p.LocalNow()
	if w != nil {
		now = w.begun
	}
	next := standing{Last: was.Last, Form: p.Target.form()}
	if next.Ended = was.Ended; now-was.Last >= merge.FeedLag {
		next.Last, next.Ended = 0, 0
	}
	for _, t := range was.Told {
		if now-t.Push < merge.FeedLag {
			next.Told = append(next.Told, t)
		}
	}
	next.Many = was.Many && next.Last != 0
	if next.Window = was.Window; w != nil {
		next.Window, next.NoOrder = len(w.now.Entries), w.now.Order == window.NoOrder
	}
	if !reflect.DeepEqual(was, next) {
		p.rememberJSON(pushedKey(p.Set.ID), next)
	}
	return nil
}

// topicRead records a complete reading from since to at; NoTime for everything.
func (p *Puller) topicRead(ctx context.Context, at, since store.Micros, entries int64) error {
	if p.Set.Baselines == 0 || p.Full {
		p.Out.Kind = "baseline"
		p.Set.Baselines++
	}
	before := p.Cover.ProvenPosition()
	p.Cover.AddBaseline(min(at, p.SourceNow()+merge.Skew) + 1)
	if now := p.Cover.ProvenPosition(); now != before {
		kind, iv := store.SpanFeed, store.Interval{From: min(since, now), Until: now}
		if !since.Known() { // a first reading is its baseline
			kind = store.SpanBaseline
		}
		p.pending.Spans = append(p.pending.Spans, p.span(kind, iv, entries, p.Offer.Topic.Answer.URL))
	}
	p.rememberTopic()
	return p.commitSet(ctx)
}

// rememberTopic remembers what discovery read. The wants of the answers are recorded by then.
func (p *Puller) rememberTopic() {
	for _, st := range p.Offer.Topic.States {
		if p.flawed {
			st.ETag, st.LastModified = "", ""
		}
		st.ETag, st.LastModified = parsed.Lasting(st.ETag, st.LastModified, store.Micros(p.Offer.Topic.Answer.Date))
		p.rememberJSON(TopicState+st.URL, &st)
	}
	p.rememberJSON(topicSet+p.Target.URL, map[string]string{setOfTopic: p.Set.CapabilityList})
}

// SameTopic keeps the set of a topic whose self link moves (P-06), so that files and history stay.
func (s *Source) SameTopic(ctx context.Context, offer *destination.Offer) error {
	i := slices.IndexFunc(offer.Sets, func(o destination.SetOffer) bool { return o.Topic != nil })
	if i < 0 {
		return nil
	}
	var known map[string]string
	found, err := s.RecallJSON(ctx, topicSet+s.Target.URL, &known)
	if set := known[setOfTopic]; found && set != "" {
		offer.Sets[i].ID = set
	}
	return err
}

// ContentOfInline returns the bytes of an inline resource, or makes them of its edits; store.ErrNotFound for lost ones.
func (s *Source) ContentOfInline(ctx context.Context, r *store.Resource) ([]byte, error) {
	content, err := s.Store.Content(ctx, r.ID)
	if err == nil {
		return content, nil
	}
	edits, listErr := s.Store.Edits(ctx, s.SourceID, r.URI)
	if listErr != nil || len(edits) == 0 {
		return nil, err
	}
	_, content = plan.FoldEdits(s.Log, r.URI, edits)
	return content, nil
}

// LostContent reports whether inline resources wait for bytes that only their feed has, and if to search for them.
func (s *Source) LostContent(ctx context.Context, set int64) (some, search bool, err error) {
	owed := s.Scan(store.ScanQuery{SetID: set, Filter: store.FilterOwed})
	for r, err := range owed.All(ctx) {
		if err != nil {
			return some, search, err
		}
		if w := r.WantFor(set); w != nil && w.Inline && r.Work.Class == transfer.ClassNoContent {
			if some = true; r.Work.Attempts <= searches {
				return some, true, nil
			}
		}
	}
	return some, false, nil
}

// searches bounds the searches for lost bytes.
const searches = 3

// Topic reads the entries of a feed, or the one document of another topic.
func (p *Puller) Topic(ctx context.Context) error {
	a := &p.Offer.Topic.Answer
	if a.URL == "" { // the offer tells why
		return nil
	}
	p.answered(a.Date)
	id, err := p.Store.EnsureDocument(ctx, p.Claim, p.Set.ID, a.URL, string(destination.KindFeed))
	if err != nil {
		return err
	}
	p.Plan.Topic.Document = id
	p.Plan.News = func(at store.Version) { // a change that a subscription missed
		if p.Holes.Missed != nil && p.Based() {
			p.Holes.Missed(at, false)
		}
	}
	switch {
	case a.NotModified:
		p.Out.Usable = true
		p.rememberTopic() // the page that led here
		return p.resume(ctx)
	case a.Format != feed.None:
		return p.feed(ctx)
	}
	was := false
	if was, err = p.RecallJSON(ctx, TopicWindow+p.Set.CapabilityList, &window.Window{}); err != nil {
		return err
	}
	if was { // a page of maintenance or error with status 200 (F58)
		p.Fail(fmt.Errorf("%s answered with %s in place of its feed: nothing was changed",
			fetch.RedactURL(a.URL), cmp.Or(a.ContentType, "a document of no type")))
		return nil
	}
	return p.page(ctx)
}

// ItemFrom returns the origin of entries. A cached Date may be old, so the local clock limits the future too (P6).
func (p *Puller) ItemFrom(uncached bool) merge.ItemFrom {
	now := p.LocalNow()
	return merge.ItemFrom{Uncached: uncached, Full: p.Full, Now: now,
		Limit: max(now, p.SourceNow()) + merge.Skew, Shown: store.NoTime}
}

func (p *Puller) page(ctx context.Context) error {
	t := p.Offer.Topic
	a := &t.Answer
	p.Out.Usable = true
	at := store.Micros(a.Date)
	if lm, ok := parsed.HTTPTime(a.LastModified); ok {
		at = lm
	}
	if !at.Known() {
		at = p.SourceNow()
	}
	entries := int64(0)
	if !a.Empty {
		entries = 1
		uri, had, err := p.pageOf(ctx)
		if err != nil {
			return err
		}
		now := p.SourceNow()
		c := merge.Candidate{State: store.WantPresent,
			Version: store.Version{From: now, Until: now, Document: p.Plan.Topic.Document},
			Length:  -1, LastMod: store.NoTime, Type: a.ContentType}
		if had != nil {
			c.Version = had.Version
		}
		if err := p.Plan.Add(ctx,
			plan.Entry{URI: uri, Cand: c, Item: &plan.Item{From: p.ItemFrom(false), Latest: had == nil}}); err != nil {
			return err
		}
		if err := p.Plan.Flush(ctx); err != nil {
			return err
		}
	}
	if err := p.settle(ctx, nil); err != nil {
		return err
	}
	return p.topicRead(ctx, at, p.Cover.ProvenPosition(), entries)
}

// pageOf returns the resource of a page; had is its want if validators match the file.
func (p *Puller) pageOf(ctx context.Context) (uri string, had *store.Want, err error) {
	t := p.Offer.Topic
	a := &t.Answer
	uris := []string{t.URL}
	if a.URL != t.URL && a.Final != t.URL {
		uris = append(uris, a.URL)
	}
	var r *store.Resource
	for _, uri = range uris {
		if r, err = p.Store.Resource(ctx, p.SourceID, uri); err != nil && !errors.Is(err, store.ErrNotFound) {
			return "", nil, err
		}
		if err == nil && r.WantFor(p.Set.ID) != nil {
			break
		}
	}
	if err != nil || r.Have.State != store.HavePresent || r.Work.Action != store.ActionNone {
		return uri, nil, nil
	}
	h := &r.Have
	if a.ETag != "" && h.ETag == a.ETag ||
		a.ETag == "" && h.ETag == "" && a.LastModified != "" && h.LastModified == a.LastModified {
		had = r.WantFor(p.Set.ID)
	}
	return uri, had, nil
}
