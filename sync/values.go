package sync

import (
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"resyncd/destination"
	"resyncd/destination/rsdoc"
	"resyncd/store"
)

// digestString writes usable digests as a row keeps them, strongest first.
func digestString(ds []rsdoc.Digest) string {
	switch len(ds) {
	case 0:
		return ""
	case 1:
		return ds[0].String()
	}
	parts := make([]string, len(ds))
	for i := range ds {
		parts[i] = ds[i].String()
	}
	return strings.Join(parts, " ")
}

// strongest is the digest that decides: the first of a row's.
func strongest(digests string) (rsdoc.Digest, bool) {
	first, _, _ := strings.Cut(digests, " ")
	if first == "" {
		return rsdoc.Digest{}, false
	}
	d, err := rsdoc.ParseDigest(first)
	return d, err == nil
}

func digestOf(h *store.Have) string { return "sha-256:" + hex.EncodeToString(h.SHA256[:]) }

// keptLink is what a row keeps of a link.
type keptLink struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
	Pri  int    `json:"pri,omitempty"`
	Type string `json:"type,omitempty"`
}

// maxLinks bounds what one entry may make a row keep (P8).
const maxLinks = 16

func linkString(links []rsdoc.Link) string {
	out := make([]keptLink, 0, min(len(links), maxLinks))
	for _, l := range links[:min(len(links), maxLinks)] {
		k := keptLink{Rel: l.Rel, Href: l.Href, Type: l.Type}
		if l.Pri < 999_999 {
			k.Pri = l.Pri
		}
		out = append(out, k)
	}
	return keptString(out)
}

func keptString(out []keptLink) string {
	if len(out) == 0 {
		return ""
	}
	b, err := json.Marshal(out)
	if err != nil {
		return ""
	}
	return string(b)
}

// scopes are the rules by which URIs are refused, by set.
type scopes struct {
	mu    sync.RWMutex
	rules map[int64]func(uri string) (refused string)
}

// add keeps the rule of a set that has none yet.
func (s *scopes) add(set int64, rule func(string) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rules == nil {
		s.rules = map[int64]func(string) string{}
	}
	if s.rules[set] == nil {
		s.rules[set] = rule
	}
}

// of is the rule of a set, nil if it has none.
func (s *scopes) of(set int64) func(string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.rules[set]
}

// scopeOf is the rule of a set. A Follower, which asks for it at every notification, keeps it.
func (s *session) scopeOf(set *store.Set, offer *destination.SetOffer) (func(uri string) string, error) {
	if rule := s.scopes.of(set.ID); rule != nil && s.hot != nil && offer.Err == nil {
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

// counted is how many bytes a set's totals hold for a resource; -1 if it is not counted.
func counted(w *store.Want, h *store.Have) int64 {
	if (w.State == store.WantPresent || w.State == store.WantAsk || w.Held) && h.State != store.HaveNone {
		return h.Length
	}
	return -1
}

func delta(before, after int64) int64 {
	switch {
	case before < 0 && after >= 0:
		return 1
	case before >= 0 && after < 0:
		return -1
	}
	return 0
}

func deltaBytes(before, after int64) int64 { return max(after, 0) - max(before, 0) }

// since is seconds of a run, for results.
func since(now func() time.Time, start time.Time) float64 {
	return now().Sub(start).Round(time.Millisecond).Seconds()
}

// contentOf is an entry's content as a want.
func contentOf(e *rsdoc.Entry) Candidate {
	return Candidate{
		Digests: digestString(e.Digests), Length: e.Length, LastMod: store.Micros(e.LastMod), Type: e.Type, Links: linkString(e.Links),
	}
}
