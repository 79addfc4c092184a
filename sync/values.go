package sync

import (
	"net/url"
	"slices"
	"sync"
	"time"

	"resyncd/destination"
	"resyncd/store"
)

// scopes are the rules by which URIs are refused, by set.
type scopes struct{ rules sync.Map }

// add keeps the rule of a set that has none yet.
func (s *scopes) add(set int64, rule func(string) string) { s.rules.LoadOrStore(set, rule) }

// of is the rule of a set, nil if it has none.
func (s *scopes) of(set int64) func(string) string {
	rule, _ := s.rules.Load(set)
	of, _ := rule.(func(string) string)
	return of
}

// scopeOf is the rule of a set. A Follower, which asks for it at every notification, keeps it.
func (s *session) scopeOf(set *store.Set, offer *destination.SetOffer) (func(uri string) string, error) {
	if rule := s.scopes.of(set.ID); rule != nil && s.site.Follows && offer.Err == nil {
		return rule, nil
	}
	return s.t.judge(offer)
}

// judge makes the rule by which URIs of a set are refused: outside scope, or filtered out.
func (t *Target) judge(offer *destination.SetOffer) (func(uri string) string, error) {
	own := offer.ID
	if offer.Err != nil { // nothing of it is read, and its ID may be anything: it must not stop the other sets
		own = t.URL
	}
	prefixes := t.Scope
	if u, err := url.Parse(t.URL); err == nil && (t.Kind == KindFeed || offer.Topic != nil) {
		// The self link of a feed may name another scheme or port than the feed is reached by (S-11).
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

// filter makes the rule of include and exclude.
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

// since is seconds of a run, for results.
func since(now func() time.Time, start time.Time) float64 {
	return now().Sub(start).Round(time.Millisecond).Seconds()
}
