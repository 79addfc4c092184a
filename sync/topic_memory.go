package sync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
	"resyncd/sync/plan"
	"resyncd/sync/window"
)

// What is remembered of a topic lies under keys that no URL can be, beside the rows of documents that are evidence.
const (
	topicState  = "topic "     // + URL: destination.TopicState
	topicSet    = "topic set " // + the URL that was asked for: which set it is
	topicWindow = "window "    // + the set's identity: what its feed showed at the last pull
	topicPushed = "pushed "    // + the set's id: its standing
	kindTopic   = "topic"
)

// topicOptions are how topics of this Source are discovered.
func (s *session) topicOptions() destination.TopicOptions {
	return destination.TopicOptions{Hub: s.t.Hub, Topic: s.t.Topic, Allowed: s.t.allows, Recall: s.recallTopic}
}

// allows tells URLs that the configuration vouches for: its scope prefixes.
func (t *Target) allows(u *url.URL) bool {
	if len(t.Scope) == 0 {
		return false
	}
	scope, err := destination.NewScope(t.URL, t.Scope)
	return err == nil && scope.Contains(u.String())
}

// recallTopic is what the last reading of a URL told. Where everything is to be read anew it has no validators.
func (s *session) recallTopic(ctx context.Context, url string) (*destination.TopicState, error) {
	var st destination.TopicState
	found, err := s.recallJSON(ctx, topicState+url, &st)
	if err != nil || !found || st.URL != url {
		return nil, err
	}
	anew := s.wide || s.recheck
	if doc, err := s.Store.Document(ctx, s.src.ID, topicState+url); err == nil && !anew && doc.SetID != 0 {
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
func (s *session) doubtful(ctx context.Context, set int64) (bool, error) {
	stood, err := s.standingOf(ctx, set)
	if err != nil || stood.Last != 0 || stood.NoOrder || stood.Form != s.t.form() {
		return true, err
	}
	lost, _, err := s.lostContent(ctx, set)
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

// busy: no reading of the feed would meet the last one if it were put off much longer.
func (s *standing) busy() bool { return s.Window > 0 && 2*s.Pushed >= s.Window }

func pushedKey(set int64) string { return topicPushed + strconv.FormatInt(set, 10) }

func (s *session) standingOf(ctx context.Context, set int64) (st standing, err error) {
	_, err = s.recallJSON(ctx, pushedKey(set), &st)
	return st, err
}

// form names what is mirrored of a feed beside its entries.
func (t *Target) form() string {
	return strings.Join(append(slices.Sorted(slices.Values(t.Follow)), t.Records), " ")
}

// settle has the next commit remember how the set stands after a reading of its topic, which may still lag behind what was pushed.
func (p *puller) settle(ctx context.Context, w *walk) error {
	was, err := p.s.standingOf(ctx, p.set.ID)
	if err != nil {
		return err
	}
	now := p.s.site.LocalNow()
	if w != nil {
		now = w.begun
	}
	next := standing{Last: was.Last, Form: p.s.t.form()}
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
	return p.rememberJSON(pushedKey(p.set.ID), next)
}

// recallJSON reads what was remembered under a key; false for nothing of use.
func (s *session) recallJSON(ctx context.Context, key string, into any) (bool, error) {
	d, err := s.Store.Document(ctx, s.src.ID, key)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil || len(d.Body) == 0 {
		return false, err
	}
	return json.Unmarshal(d.Body, into) == nil, nil // the form of another version: as if unknown
}

// topicRead records that the topic was read to its end, as far as at, and back to since: NoTime for all that there is.
func (p *puller) topicRead(ctx context.Context, at, since store.Micros, entries int64) error {
	if p.set.Baselines == 0 || p.s.o.Full {
		p.out.kind = "baseline"
		p.set.Baselines++
	}
	before := p.cover.ProvenPosition()
	p.cover.AddBaseline(min(at, p.s.sourceNow()+merge.Skew) + 1)
	if now := p.cover.ProvenPosition(); now != before {
		p.topicProved(store.Interval{From: since, Until: now}, entries)
	}
	if err := p.rememberTopic(); err != nil {
		return err
	}
	return p.commitSet(ctx)
}

// rememberJSON has the next commit of the set remember something.
func (p *puller) rememberJSON(key string, what any) error {
	d, err := p.s.memo(p.set, key, what)
	if err == nil {
		p.docs = append(p.docs, d)
	}
	return err
}

// memo is what is to be remembered of a set under a key.
func (s *session) memo(set *store.Set, key string, what any) (store.Document, error) {
	body, err := json.Marshal(what)
	if err != nil {
		return store.Document{}, fmt.Errorf("remember %s: %w", key, err)
	}
	return store.Document{
		SourceID: s.src.ID, SetID: set.ID, URL: key, Kind: kindTopic, At: store.NoTime, From: store.NoTime, Until: store.NoTime,
		LastEntry: store.NoTime, Complete: true, Body: body, Read: s.site.LocalNow(),
	}, nil
}

// rememberTopic has the next commit remember what discovery read: what the answers told is recorded by then.
func (p *puller) rememberTopic() error {
	for _, st := range p.offer.Topic.States {
		if p.flawed {
			st.ETag, st.LastModified = "", ""
		}
		st.ETag, st.LastModified = parsed.Lasting(st.ETag, st.LastModified, store.Micros(p.offer.Topic.Answer.Date))
		if err := p.rememberJSON(topicState+st.URL, &st); err != nil {
			return err
		}
	}
	return p.rememberSet()
}

// rememberSet has the next commit remember which set the topic is.
func (p *puller) rememberSet() error {
	return p.rememberJSON(topicSet+p.s.t.URL, knownTopic{Set: p.set.CapabilityList})
}

// knownTopic is which set the topic of a URL is.
type knownTopic struct {
	Set string `json:"set"`
}

// sameTopic keeps a topic the set that it was: its self link may move (P-06), its files and their history do not.
func (s *session) sameTopic(ctx context.Context, offer *destination.Offer) error {
	for i := range offer.Sets {
		if offer.Sets[i].Topic == nil {
			continue
		}
		var known knownTopic
		found, err := s.recallJSON(ctx, topicSet+s.t.URL, &known)
		if err != nil {
			return err
		}
		if found && known.Set != "" {
			offer.Sets[i].ID = known.Set
		}
	}
	return nil
}

// contentOfInline are the bytes of a resource that came with its document, or were made of its edits; store.ErrNotFound if
// they were lost before they reached the mirror.
func (s *session) contentOfInline(ctx context.Context, r *store.Resource) ([]byte, error) {
	content, err := s.Store.Content(ctx, r.ID)
	if err == nil {
		return content, nil
	}
	edits, listErr := s.Store.Edits(ctx, s.src.ID, r.URI)
	if listErr != nil || len(edits) == 0 {
		return nil, err
	}
	_, content = plan.FoldEdits(s.log, r.URI, edits)
	return content, nil
}
