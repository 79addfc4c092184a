package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
)

// Document is a small document read whole. It can be remembered (JSON) and then serves again when the server answers
// 304.
type Document struct {
	URL  string // as requested; the identity
	Head rsdoc.Head
	// Entries of the document, bounded.
	Entries []Ref
	Skipped int64 `json:",omitempty"`
	// Route is set only in what discovery remembers (see routeKey).
	Route []Hop `json:",omitempty"`
	Meta
}

// Hop is a document at which a discovery ended, and how it was found.
type Hop struct {
	Ref
	Shape rsdoc.Shape
	How   string
}

// Meta is the metadata of an answer.
type Meta struct {
	ETag, LastModified string
	Date               rsdoc.Micros // Date header, NoTime without
	NotModified        bool         // the answer was 304: all else was remembered
}

// Ref is one entry of a small document.
type Ref struct {
	URL             string
	Kind            rsdoc.Kind
	LastMod         rsdoc.Micros
	At, From, Until rsdoc.Micros
	Length          int64 // -1 where absent
	Type            string
	Links           []rsdoc.Link
}

// Memory remembers documents between runs, by Document.URL, an opaque key. Recall returns nil for an unknown one.
// Memory is called from one goroutine, and neither side changes a document that was passed.
type Memory interface {
	Recall(ctx context.Context, url string) (*Document, error)
	Remember(ctx context.Context, d *Document) error
}

// Offer is what a Source offers, and how each set was found.
type Offer struct {
	Asked string // the URL that discovery began with
	// Description is the Source Description that was read, or the one that a Capability List names.
	Description string
	Sets        []SetOffer
	// Others are the Capability Lists that were not wanted.
	Others []string
	// Partial says that a part of the Source Description could not be read (F72).
	Partial bool
	Trail   []Step // every request, in order
}

// SetOffer is one set: a Capability List, or a bare list that is its own set.
type SetOffer struct {
	// ID is the URL of the Capability List, bare list or topic.
	ID   string
	Bare bool // no Capability List: just the given list or topic
	// Found is given, well-known, link-header, html-link, robots, description or up.
	Found string
	// Err is why the set cannot be used, nil for a usable one.
	Err error
	// The first of each kind; later ones are in Also.
	ResourceList, ChangeList        *Ref
	ResourceDump, ChangeDump        *Ref
	ResourceListArchive             *Ref
	ChangeListArchive               *Ref
	ResourceDumpArchive             *Ref
	ChangeDumpArchive               *Ref
	ChangeChannel, FrameworkChannel *Channel
	// Topic is set for a set that follows a feed or another topic instead (websub.md 3.1).
	Topic       *Topic
	Also        []Ref // unknown or repeated capabilities
	DescribedBy string
}

// Channel is a WebSub topic with its hubs, preferred first [14.3].
type Channel struct {
	Kind  rsdoc.Kind `json:"kind"`
	Topic string     `json:"topic"`
	Hubs  []string   `json:"hubs"`
}

// Step is one request of a discovery, shown to people.
type Step struct {
	URL    string `json:"url"`
	How    string `json:"how"` // as SetOffer.Found, or index, self, topic
	Result string `json:"result"`
	OK     bool   `json:"ok"`
}

// kinds is what is known of each kind of document: its name, the kind of the lists in an archive and the archive of
// such lists, the kind of the manifests in a dump, and where a set has what it offers of that kind.
var kinds = map[rsdoc.Kind]struct {
	name           string
	holds, archive rsdoc.Kind
	manifest       rsdoc.Kind
	slot           func(s *SetOffer) **Ref
}{
	rsdoc.KindUnknown:        {name: "Sitemap"},
	rsdoc.KindDescription:    {name: "Source Description"},
	rsdoc.KindCapabilityList: {name: "Capability List"},
	rsdoc.KindResourceList: {name: "Resource List", archive: rsdoc.KindResourceListArchive,
		slot: func(s *SetOffer) **Ref { return &s.ResourceList }},
	rsdoc.KindChangeList: {name: "Change List", archive: rsdoc.KindChangeListArchive,
		slot: func(s *SetOffer) **Ref { return &s.ChangeList }},
	rsdoc.KindResourceDump: {name: "Resource Dump", archive: rsdoc.KindResourceDumpArchive,
		manifest: rsdoc.KindResourceDumpManifest,
		slot:     func(s *SetOffer) **Ref { return &s.ResourceDump }},
	rsdoc.KindChangeDump: {name: "Change Dump", archive: rsdoc.KindChangeDumpArchive,
		manifest: rsdoc.KindChangeDumpManifest,
		slot:     func(s *SetOffer) **Ref { return &s.ChangeDump }},
	rsdoc.KindResourceListArchive: {name: "Resource List Archive", holds: rsdoc.KindResourceList,
		slot: func(s *SetOffer) **Ref { return &s.ResourceListArchive }},
	rsdoc.KindChangeListArchive: {name: "Change List Archive", holds: rsdoc.KindChangeList,
		slot: func(s *SetOffer) **Ref { return &s.ChangeListArchive }},
	rsdoc.KindResourceDumpArchive: {name: "Resource Dump Archive", holds: rsdoc.KindResourceDump,
		slot: func(s *SetOffer) **Ref { return &s.ResourceDumpArchive }},
	rsdoc.KindChangeDumpArchive: {name: "Change Dump Archive", holds: rsdoc.KindChangeDump,
		slot: func(s *SetOffer) **Ref { return &s.ChangeDumpArchive }},
	rsdoc.KindResourceDumpManifest:  {name: "Resource Dump Manifest"},
	rsdoc.KindChangeDumpManifest:    {name: "Change Dump Manifest"},
	rsdoc.KindChangeNotification:    {name: "Change Notification"},
	rsdoc.KindFrameworkNotification: {name: "Framework Notification"},
	KindFeed:                        {name: "feed"},
}

func kindName(k rsdoc.Kind) string {
	if known, ok := kinds[k]; ok {
		return known.name
	}
	return fmt.Sprintf("document of kind %.40q", string(k))
}

// archived is the kind of the lists in an archive kind, else "".
func archived(k rsdoc.Kind) rsdoc.Kind { return kinds[k].holds }

// manifested is the kind of the manifests of a dump's packages, else "".
func manifested(k rsdoc.Kind) rsdoc.Kind { return kinds[k].manifest }

// isSnapshot reports a kind where only the union of all parts proves absence [10.2].
func isSnapshot(k rsdoc.Kind) bool { return k == rsdoc.KindResourceList || k == rsdoc.KindResourceDump }

func isDirectory(k rsdoc.Kind) bool {
	return k == rsdoc.KindDescription || k == rsdoc.KindCapabilityList
}

// isOffered reports a kind that a set offers as such.
func isOffered(k rsdoc.Kind) bool { return kinds[k].slot != nil }

func (s *SetOffer) refField(k rsdoc.Kind) **Ref {
	if slot := kinds[k].slot; slot != nil {
		return slot(s)
	}
	return nil
}

func (s *SetOffer) usable() bool {
	for _, k := range kinds {
		if k.slot != nil && *k.slot(s) != nil {
			return true
		}
	}
	return false
}

// readWhole reads a document of the kind that has to be held whole. One that breaks off proves nothing (F58). Of a
// document whose first entry was read already, first is that entry.
func (r *Reader) readWhole(url string, a *answer, doc *rsdoc.Reader, first *rsdoc.Entry,
	kind rsdoc.Kind) (*Document, error) {
	d := &Document{URL: url, Meta: a.meta()}
	if first != nil {
		d.Entries = append(d.Entries, refOf(first))
	}
	if err := r.readEntries(d, doc); err != nil {
		return nil, err
	}
	h, err := doc.Head() // a root may continue behind its entries [5]
	if err != nil {
		return nil, err
	}
	if err := h.Expect(kind); err != nil {
		return nil, err
	}
	d.Head = *h
	n, why := doc.Skipped()
	if d.Skipped = n; n > 0 {
		r.o.Log.Warn("bad entries skipped", "document", fetch.RedactURL(d.URL), "entries", n, "first", why)
	}
	return d, nil
}

func (r *Reader) readEntries(d *Document, doc *rsdoc.Reader) error {
	held := 0
	for {
		e, err := doc.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return broken(err)
		}
		if e.Fault != "" {
			continue // Skipped counts it
		}
		ref := refOf(e)
		if held += ref.size(); held > r.limits.smallBytes || len(d.Entries) >= r.limits.smallEntries {
			why := fmt.Sprintf("more than %d entries or %d bytes in a document that has to be held whole",
				r.limits.smallEntries, r.limits.smallBytes)
			return &rsdoc.DocumentError{Problem: rsdoc.Limit, Offset: doc.Bytes(), Detail: why}
		}
		d.Entries = append(d.Entries, ref)
	}
}

// refOf copies an entry, because the reader uses it again.
func refOf(e *rsdoc.Entry) Ref {
	return Ref{
		URL: e.Loc, Kind: e.Capability, LastMod: e.LastMod, At: e.At, From: e.From, Until: e.Until,
		Length: e.Length, Type: e.Type, Links: cloneLinks(e.Links),
	}
}

func cloneLinks(links []rsdoc.Link) []rsdoc.Link {
	if len(links) == 0 {
		return nil
	}
	out := slices.Clone(links)
	for i := range out {
		out[i].Digests = slices.Clone(out[i].Digests)
	}
	return out
}

// Link is where the first link of a relation leads, "" without one.
func (r *Ref) Link(rel string) string { return hrefOf(r.Links, rel) }

func (r *Ref) size() int {
	n := 128 + len(r.URL) + len(r.Kind) + len(r.Type)
	for i := range r.Links {
		l := &r.Links[i]
		n += 128 + len(l.Rel) + len(l.Href) + len(l.Type) + len(l.Path) + 72*len(l.Digests)
	}
	return n
}

// sameParts leaves out the root's own at, because some Sources write the time of the request there.
func sameParts(a, b *Document) bool {
	return slices.EqualFunc(a.Entries, b.Entries, func(x, y Ref) bool {
		return x.URL == y.URL && x.LastMod == y.LastMod && x.At == y.At && x.From == y.From && x.Until == y.Until &&
			x.Length == y.Length
	})
}

// Error is a discovery that found nothing usable.
type Error struct {
	Asked string
	Trail []Step
	Hint  string
	// Err is the most important failure, for errors.Is, errors.As and fetch.KindOf; nil if all answers came and none
	// was usable.
	Err error
	// causes are those of all failures (fetch.CauseOf), where Err is one of several.
	causes []string
}

// Cause is the one of all failures (fetch.CauseOf). Many may ask at once.
func (e *Error) Cause() string {
	return fetch.OneCause(append(slices.Clip(e.causes), fetch.CauseOf(e.Err)))
}

// Error lists every request with its result.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "nothing to synchronise was found at %s", fetch.RedactURL(e.Asked))
	for i, s := range e.Trail {
		if i == 10 {
			fmt.Fprintf(&b, "; and %d more", len(e.Trail)-i)
			break
		}
		fmt.Fprintf(&b, "; %s (%s): %s", fetch.RedactURL(s.URL), s.How, s.Result)
	}
	if e.Hint != "" {
		b.WriteString(". " + e.Hint)
	}
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Unknown or repeated entries are kept in Also and never stop the set [18].
func (s *SetOffer) add(e Ref) {
	switch e.Kind {
	case rsdoc.KindChangeNotification:
		s.channel(&s.ChangeChannel, e)
		return
	case rsdoc.KindFrameworkNotification:
		s.channel(&s.FrameworkChannel, e)
		return
	}
	slot := s.refField(e.Kind)
	switch {
	case slot == nil:
		s.Also = append(s.Also, e)
	case *slot == nil:
		*slot = &e
	case (*slot).URL != e.URL:
		s.Also = append(s.Also, e)
	}
}

// A WebSub topic is never fetched as a document, because the answer may be empty [9].
func (s *SetOffer) channel(slot **Channel, e Ref) {
	if *slot != nil {
		if (*slot).Topic != e.URL {
			s.Also = append(s.Also, e)
		}
		return
	}
	*slot = &Channel{Kind: e.Kind, Topic: e.URL, Hubs: hubs(e.Links)}
}

// hubs are the hub links in order of preference [14.3].
func hubs(links []rsdoc.Link) []string {
	var found []rsdoc.Link
	for _, l := range links {
		if strings.EqualFold(l.Rel, rsdoc.RelHub) {
			found = append(found, l)
		}
	}
	slices.SortStableFunc(found, func(a, b rsdoc.Link) int { return cmp.Compare(a.Pri, b.Pri) })
	var out []string
	for _, l := range found {
		if !slices.Contains(out, l.Href) {
			out = append(out, l.Href)
		}
	}
	return out
}

var errNoLists = errors.New("the Capability List names no list, dump or archive")

func setOf(d *Document, found string) SetOffer {
	s := SetOffer{ID: d.URL, Found: found}
	if l, ok := d.Head.Link(rsdoc.RelDescribedBy); ok {
		s.DescribedBy = l.Href
	}
	for _, e := range d.Entries {
		s.add(e)
	}
	if !s.usable() {
		s.Err = errNoLists
	}
	return s
}

func bareSet(hop Hop) SetOffer {
	s := SetOffer{ID: hop.URL, Bare: true, Found: hop.How, DescribedBy: hrefOf(hop.Links, rsdoc.RelDescribedBy)}
	ref := hop.Ref
	if ref.Kind == rsdoc.KindUnknown {
		ref.Kind = rsdoc.KindResourceList // as a plain Sitemap is read [2]
	}
	s.add(ref)
	for _, l := range hop.Links {
		if strings.EqualFold(l.Rel, rsdoc.RelArchives) && kinds[ref.Kind].archive != "" {
			s.add(newRef(l.Href, kinds[ref.Kind].archive))
		}
	}
	return s
}

// hrefOf is where the first link of a relation leads, "" without one.
func hrefOf(links []rsdoc.Link, rel string) string {
	for _, l := range links {
		if strings.EqualFold(l.Rel, rel) {
			return l.Href
		}
	}
	return ""
}

func newRef(url string, kind rsdoc.Kind) Ref { return Ref{URL: url, Kind: kind}.dropZeroTimes() }

// Channels are the channels of the set, the change channel first.
func (s *SetOffer) Channels() []Channel {
	var out []Channel
	for _, c := range []*Channel{s.ChangeChannel, s.FrameworkChannel} {
		if c != nil {
			out = append(out, *c)
		}
	}
	if t := s.Topic; t != nil && len(t.Hubs) > 0 {
		out = append(out, Channel{Kind: KindFeed, Topic: t.URL, Hubs: slices.Clone(t.Hubs)})
	}
	return out
}
