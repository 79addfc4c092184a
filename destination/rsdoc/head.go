package rsdoc

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

const noPri = 999_999

// NewHead is the head of a document of that shape and kind.
func NewHead(shape Shape, kind Kind) Head {
	return Head{
		Shape: shape, Kind: kind, RawKind: string(kind), HasMD: kind != KindUnknown,
		At: NoTime, Completed: NoTime, From: NoTime, Until: NoTime, Modified: NoTime,
	}
}

// NewEntry is an entry of which only the URI is known.
func NewEntry(loc string) Entry {
	e := Entry{Loc: loc}
	e.clear()
	return e
}

// clear resets all but Loc, and keeps the memory of the slices.
func (e *Entry) clear() {
	*e = Entry{
		Loc: e.Loc, LastMod: NoTime, Datetime: NoTime, At: NoTime, Completed: NoTime, From: NoTime, Until: NoTime,
		Length: -1, Digests: e.Digests[:0], Links: e.Links[:0],
	}
}

// NewLink is a link of which only relation and target are known.
func NewLink(rel, href string) Link {
	return Link{Rel: rel, Href: href, Pri: noPri, Modified: NoTime, Length: -1}
}

// Link is the preferred link of a relation, in any letter case: the one with the lowest pri.
func (h *Head) Link(rel string) (Link, bool) {
	best := -1
	for i := range h.Links {
		if strings.EqualFold(h.Links[i].Rel, rel) && (best < 0 || h.Links[i].Pri < h.Links[best].Pri) {
			best = i
		}
	}
	if best < 0 {
		return Link{}, false
	}
	return h.Links[best], true
}

// Expect refuses a document of another kind with a *DocumentError (F58). A document that does not state its kind
// passes: the referring document decides [digest 18].
func (h *Head) Expect(kinds ...Kind) error {
	if h.Kind == KindUnknown || slices.Contains(kinds, h.Kind) {
		return nil
	}
	asked := make([]string, len(kinds))
	for i, k := range kinds {
		asked[i] = string(k)
	}
	came := cmp.Or(h.RawKind, string(h.Kind))
	return &DocumentError{
		Problem: WrongKind,
		Detail:  "asked for " + strings.Join(asked, " or ") + ", and the document says it is " + quote(came),
	}
}

// snapshot reports a kind that has at on its root [7, Appendix A].
func (k Kind) snapshot() bool {
	return k == KindResourceList || k == KindResourceDump || k == KindResourceDumpManifest
}

// changes reports a kind whose entries need a change attribute [12, 13.2].
func (k Kind) changes() bool {
	return k == KindChangeList || k == KindChangeDumpManifest || k == KindChangeNotification ||
		k == KindFrameworkNotification
}

// parseKind maps older spellings [digest 16] to ours.
func parseKind(b []byte, intern func([]byte) string) Kind {
	switch k := Kind(intern(bytes.ToLower(trimSpace(b)))); k {
	case "resourcesync":
		return KindDescription
	case "changelist-notification":
		return KindChangeNotification
	default:
		return k
	}
}
