package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
	"resyncd/sync/plan"
	"resyncd/sync/transfer"
	"resyncd/sync/window"
)

// What is remembered of a topic lies under keys that no URL can be, beside the rows of documents that are evidence.
const (
	TopicState  = "topic "     // + URL: destination.TopicState
	topicSet    = "topic set " // + the URL that was asked for: which set it is
	TopicWindow = "window "    // + the set's identity: what its feed showed at the last pull
	topicPushed = "pushed "    // + the set's id: its standing
	kindTopic   = "topic"
)

// TopicOptions are how topics of this Source are discovered.
func (s *Source) TopicOptions() destination.TopicOptions {
	return destination.TopicOptions{Hub: s.Target.Hub, Topic: s.Target.Topic, Allowed: s.Target.allows, Recall: s.recallTopic}
}

// recallTopic is what the last reading of a URL told. Where everything is to be read anew it has no validators.
func (s *Source) recallTopic(ctx context.Context, url string) (*destination.TopicState, error) {
	var st destination.TopicState
	found, err := s.RecallJSON(ctx, TopicState+url, &st)
	if err != nil || !found || st.URL != url {
		return nil, err
	}
	anew := s.Wide || s.Recheck
	if doc, err := s.Site.Store.Document(ctx, s.Site.SourceID, TopicState+url); err == nil && !anew && doc.SetID != 0 {
		if anew, err = s.doubtful(ctx, doc.SetID); err != nil {
			return nil, err
		}
	}
	if anew {
		st.ETag, st.LastModified = "", ""
	}
	return &st, nil
}

// doubtful: the state of a set need not be that of its topic, though its document has not changed. The mirror has lost bytes, or
// was told things by a hub that the topic has not been held against since (P9); what is new may be on another page; or something
// else is to be mirrored of it now.
func (s *Source) doubtful(ctx context.Context, set int64) (bool, error) {
	stood, err := s.standingOf(ctx, set)
	if err != nil || stood.Last != 0 || stood.NoOrder || stood.Form != s.Target.form() {
		return true, err
	}
	lost, _, err := s.LostContent(ctx, set)
	return lost, err
}

// standing is how the set of a topic stands to what its feed showed last.
type standing struct {
	// Last is when a notification last told of entries (local), 0 once the feed was read long enough after that.
	Last store.Micros `json:"last"`
	// Pushed is how many entries were pushed since the feed was read, Window how many it showed then.
	Pushed int `json:"pushed,omitempty"`
	Window int `json:"window,omitempty"`
	// Ended is how many entries a hub has ended that the feed was not held against.
	Ended int64 `json:"ended,omitempty"`
	// Told are the entries of which a hub alone told something else than the feed had; Many: there were more.
	Told []told `json:"told,omitempty"`
	Many bool   `json:"many,omitempty"`
	// NoOrder: its pages are not newest first, so they are read all each time.
	NoOrder bool `json:"no_order,omitempty"`
	// Form is what is mirrored of it (Target.form).
	Form string `json:"form,omitempty"`
}

// told is an entry that a hub changed: its key, the instant that it had, and when that was (local).
type told struct {
	Key  uint64       `json:"k"`
	At   store.Micros `json:"at"`
	Push store.Micros `json:"p"`
}

// toldMost bounds the entries of which it is remembered that a hub changed them (P8).
const toldMost = 2000

// ripe are the entries that the feed had the time to show.
func (s *standing) ripe(now store.Micros) map[uint64]told {
	ripe := map[uint64]told{}
	for _, t := range s.Told {
		if now-t.Push >= merge.FeedLag {
			ripe[t.Key] = t
		}
	}
	return ripe
}

// Busy: no reading of the feed would meet the last one if it were put off much longer.
func (s *standing) Busy() bool { return s.Window > 0 && 2*s.Pushed >= s.Window }

func pushedKey(set int64) string { return topicPushed + strconv.FormatInt(set, 10) }

func (s *Source) standingOf(ctx context.Context, set int64) (st standing, err error) {
	_, err = s.RecallJSON(ctx, pushedKey(set), &st)
	return st, err
}

// settle has the next commit remember how the set stands after a reading of its topic, which may still lag behind what was pushed.
func (p *Puller) settle(ctx context.Context, w *walk) error {
	was, err := p.Source.standingOf(ctx, p.Set.ID)
	if err != nil {
		return err
	}
	now := p.Source.Site.LocalNow()
	if w != nil {
		now = w.begun
	}
	next := standing{Last: was.Last, Form: p.Source.Target.form()}
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
	if reflect.DeepEqual(was, next) {
		return nil
	}
	return p.rememberJSON(pushedKey(p.Set.ID), next)
}

// RecallJSON reads what was remembered under a key; false for nothing of use.
func (s *Source) RecallJSON(ctx context.Context, key string, into any) (bool, error) {
	d, err := s.Site.Store.Document(ctx, s.Site.SourceID, key)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil || len(d.Body) == 0 {
		return false, err
	}
	return json.Unmarshal(d.Body, into) == nil, nil // the form of another version: as if unknown
}

// topicRead records that the topic was read to its end, as far as at, and back to since: NoTime for all that there is.
func (p *Puller) topicRead(ctx context.Context, at, since store.Micros, entries int64) error {
	if p.Set.Baselines == 0 || p.Source.Full {
		p.Out.Kind = "baseline"
		p.Set.Baselines++
	}
	before := p.Cover.ProvenPosition()
	p.Cover.AddBaseline(min(at, p.Source.SourceNow()+merge.Skew) + 1)
	if now := p.Cover.ProvenPosition(); now != before {
		p.topicProved(store.Interval{From: since, Until: now}, entries)
	}
	if err := p.rememberTopic(); err != nil {
		return err
	}
	return p.commitSet(ctx)
}

// rememberJSON has the next commit of the set remember something.
func (p *Puller) rememberJSON(key string, what any) error {
	d, err := p.Source.memo(p.Set, key, what)
	if err == nil {
		p.pending.docs = append(p.pending.docs, d)
	}
	return err
}

// memo is what is to be remembered of a set under a key.
func (s *Source) memo(set *store.Set, key string, what any) (store.Document, error) {
	body, err := json.Marshal(what)
	if err != nil {
		return store.Document{}, fmt.Errorf("remember %s: %w", key, err)
	}
	return store.Document{
		SourceID: s.Site.SourceID, SetID: set.ID, URL: key, Kind: kindTopic, At: store.NoTime, From: store.NoTime, Until: store.NoTime,
		LastEntry: store.NoTime, Complete: true, Body: body, Read: s.Site.LocalNow(),
	}, nil
}

// rememberTopic has the next commit remember what discovery read: what the answers told is recorded by then.
func (p *Puller) rememberTopic() error {
	for _, st := range p.Offer.Topic.States {
		if p.flawed {
			st.ETag, st.LastModified = "", ""
		}
		st.ETag, st.LastModified = parsed.Lasting(st.ETag, st.LastModified, store.Micros(p.Offer.Topic.Answer.Date))
		if err := p.rememberJSON(TopicState+st.URL, &st); err != nil {
			return err
		}
	}
	return p.rememberSet()
}

// rememberSet has the next commit remember which set the topic is.
func (p *Puller) rememberSet() error {
	return p.rememberJSON(topicSet+p.Source.Target.URL, knownTopic{Set: p.Set.CapabilityList})
}

// knownTopic is which set the topic of a URL is.
type knownTopic struct {
	Set string `json:"set"`
}

// SameTopic keeps a topic the set that it was: its self link may move (P-06), its files and their history do not.
func (s *Source) SameTopic(ctx context.Context, offer *destination.Offer) error {
	for i := range offer.Sets {
		if offer.Sets[i].Topic == nil {
			continue
		}
		var known knownTopic
		found, err := s.RecallJSON(ctx, topicSet+s.Target.URL, &known)
		if err != nil {
			return err
		}
		if found && known.Set != "" {
			offer.Sets[i].ID = known.Set
		}
	}
	return nil
}

// ContentOfInline are the bytes of a resource that came with its document, or were made of its edits; store.ErrNotFound if
// they were lost before they reached the mirror.
func (s *Source) ContentOfInline(ctx context.Context, r *store.Resource) ([]byte, error) {
	content, err := s.Site.Store.Content(ctx, r.ID)
	if err == nil {
		return content, nil
	}
	edits, listErr := s.Site.Store.Edits(ctx, s.Site.SourceID, r.URI)
	if listErr != nil || len(edits) == 0 {
		return nil, err
	}
	_, content = plan.FoldEdits(s.Site.Log, r.URI, edits)
	return content, nil
}

// LostContent finds inline resources that wait for bytes which only their feed can bring again. It reports whether there are
// any, and whether the whole history of the feed is to be searched for them, as is done a few times.
func (s *Source) LostContent(ctx context.Context, set int64) (some, search bool, err error) {
	for after := int64(0); !search; {
		rs, err := s.Site.Store.Scan(ctx, store.ScanQuery{SourceID: s.Site.SourceID, SetID: set, Filter: store.FilterOwed, After: after, Limit: SweepPage})
		if err != nil || len(rs) == 0 {
			return some, search, err
		}
		after = rs[len(rs)-1].ID
		for _, r := range rs {
			if w := r.WantFor(set); w != nil && w.Inline && r.Work.Class == transfer.ClassNoContent {
				some, search = true, search || r.Work.Attempts <= searches
			}
		}
	}
	return some, search, nil
}

// searches is after how many failures the history of a feed is not searched any more for what was lost.
const searches = 3
