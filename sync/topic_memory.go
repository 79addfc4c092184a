package sync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"resyncd/destination"
	"resyncd/store"
)

// What is remembered of a topic lies under keys that no URL can be, beside the rows of documents that are evidence.
const (
	topicState  = "topic "     // + URL: destination.TopicState
	topicSet    = "topic set " // + the URL that was asked for: which set it is
	topicWindow = "window "    // + the set's identity: what its feed showed at the last pull
	topicPushed = "pushed "    // + the set's id: when a notification last told of an entry
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
	anew := s.o.Full || s.recheck
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

// doubtful: the state of a set need not be that of its topic, though the topic has not changed. The mirror has lost bytes, or
// was told things by a hub that the topic has not been held against since (P9).
func (s *session) doubtful(ctx context.Context, set int64) (bool, error) {
	var push knownPush
	if _, err := s.recallJSON(ctx, pushedKey(set), &push); err != nil || push.Last != 0 {
		return true, err
	}
	lost, _, err := s.lostContent(ctx, set)
	return lost, err
}

// knownPush is when a notification last told of entries (local), 0 once the feed was read long enough after that.
type knownPush struct {
	Last store.Micros `json:"last"`
}

func pushedKey(set int64) string { return topicPushed + strconv.FormatInt(set, 10) }

// rememberPush has the next commit remember that the feed is to be held against what is being pushed, even if it does not
// change.
func (p *puller) rememberPush() error {
	return p.rememberJSON(pushedKey(p.set.ID), knownPush{Last: p.s.localNow()})
}

// settlePush has the next commit remember that the feed was, unless it may still lag behind.
func (p *puller) settlePush(ctx context.Context) error {
	var push knownPush
	if _, err := p.s.recallJSON(ctx, pushedKey(p.set.ID), &push); err != nil || push.Last == 0 || p.s.localNow()-push.Last < feedLag {
		return err
	}
	return p.rememberJSON(pushedKey(p.set.ID), knownPush{})
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
	p.cover.AddBaseline(min(at, p.s.sourceNow()+skew) + 1)
	if now := p.cover.ProvenPosition(); now != before {
		p.topicProved(store.Interval{From: since, Until: now}, entries)
	}
	if err := p.settlePush(ctx); err != nil {
		return err
	}
	if err := p.rememberTopic(); err != nil {
		return err
	}
	return p.commitSet(ctx)
}

// rememberJSON has the next commit of the set remember something.
func (p *puller) rememberJSON(key string, what any) error {
	body, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("remember %s: %w", key, err)
	}
	p.docs = append(p.docs, store.Document{
		SourceID: p.s.src.ID, SetID: p.set.ID, URL: key, Kind: kindTopic, At: store.NoTime, From: store.NoTime, Until: store.NoTime,
		LastEntry: store.NoTime, Complete: true, Body: body, Read: p.s.localNow(),
	})
	return nil
}

// rememberTopic has the next commit remember what discovery read: what the answers told is recorded by then.
func (p *puller) rememberTopic() error {
	for _, st := range p.offer.Topic.States {
		if p.flawed {
			st.ETag, st.LastModified = "", ""
		}
		st.ETag, st.LastModified = lasting(st.ETag, st.LastModified, store.Micros(p.offer.Topic.Answer.Date))
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
