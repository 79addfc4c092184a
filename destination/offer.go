package destination

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
)

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
	s := SetOffer{ID: hop.URL, Bare: true, Found: hop.How}
	ref := hop.Ref
	if ref.Kind == rsdoc.KindUnknown {
		ref.Kind = rsdoc.KindResourceList // as a plain Sitemap is read [2]
	}
	s.add(ref)
	for _, l := range hop.Links {
		switch {
		case strings.EqualFold(l.Rel, rsdoc.RelArchives) && kinds[ref.Kind].archive != "":
			s.add(newRef(l.Href, kinds[ref.Kind].archive))
		case strings.EqualFold(l.Rel, rsdoc.RelDescribedBy) && s.DescribedBy == "":
			s.DescribedBy = l.Href
		}
	}
	return s
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
