package sync

import (
	"encoding/hex"
	"encoding/json"
	"strings"

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
	if len(links) == 0 {
		return ""
	}
	out := make([]keptLink, 0, min(len(links), maxLinks))
	for _, l := range links[:min(len(links), maxLinks)] {
		k := keptLink{Rel: l.Rel, Href: l.Href, Type: l.Type}
		if l.Pri < 999_999 {
			k.Pri = l.Pri
		}
		out = append(out, k)
	}
	b, err := json.Marshal(out)
	if err != nil {
		return ""
	}
	return string(b)
}

// judge makes the rule by which URIs of a set are refused: outside scope, or filtered out.
func (t *Target) judge(offer *destination.SetOffer) (func(uri string) string, error) {
	own := offer.ID
	if offer.Err != nil { // nothing of it is read, and its ID may be anything: it must not stop the other sets
		own = t.URL
	}
	scope, err := destination.NewScope(own, t.Scope)
	if err != nil {
		return nil, err
	}
	filter, err := destination.NewFilter(t.Include, t.Exclude)
	if err != nil {
		return nil, err
	}
	return func(uri string) string {
		switch {
		case !scope.Contains(uri):
			return "outside the scope of the Source: add its prefix to `scope` if it belongs to the set"
		case !filter.Passes(uri):
			return "left out by `include` or `exclude`"
		}
		return ""
	}, nil
}
