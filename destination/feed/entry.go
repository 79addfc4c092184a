package feed

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The values of KeyFrom.
const (
	fromID     = "id"
	fromGUID   = "guid"
	fromLink   = "link"
	fromDigest = "digest"
)

// digestKey begins the key of an entry that nothing else identifies.
const digestKey = "sha-256:"

func (r *reader) entry(n *node) (*Entry, error) {
	e := &Entry{}
	if r.p.kind == Atom {
		r.atomEntry(e, n)
	} else {
		r.rssItem(e, n)
	}
	var err error
	if e.XML, err = r.canon.writeDocument(n, baseOf(n), mostGrowth*r.size+mostAdded); err != nil {
		return nil, err
	}
	if e.Edit, err = readEdit(n); err != nil {
		return nil, err
	}
	switch {
	case e.Edit != nil: // an atom:id may be the record's, the same for all its edits
		sum := e.Edit.Digest()
		e.Key, e.KeyFrom = digestKey+hex.EncodeToString(sum[:]), fromDigest
	case e.Key == "":
		sum := sha256.Sum256(e.XML)
		e.Key, e.KeyFrom = digestKey+hex.EncodeToString(sum[:]), fromDigest
	}
	return e, nil
}

// elementName is the name of an element in lower case.
type elementName struct {
	vocabulary vocabulary
	local      string
}

// Where the dates and authors of entries are, best first.
var (
	atomChanged = []elementName{
		{atomVocabulary, "updated"}, {atomVocabulary, "modified"}, {dublinTerms, "modified"}, {dublinCore, "date"},
	}
	atomAppeared = []elementName{
		{atomVocabulary, "published"}, {atomVocabulary, "issued"}, {atomVocabulary, "created"},
	}
	rssChanged  = []elementName{{atomVocabulary, "updated"}, {dublinTerms, "modified"}, {dublinCore, "date"}}
	rssAuthors  = []elementName{{rssVocabulary, "author"}, {dublinCore, "creator"}, {itunes, "author"}}
	rssAppeared = []elementName{{rssVocabulary, "pubdate"}, {atomVocabulary, "published"}}
)

// first is the child with the first of the names that there is, nil for none.
func (n *node) first(names ...elementName) *node {
	for _, name := range names {
		if k := n.child(name.vocabulary, name.local); k != nil {
			return k
		}
	}
	return nil
}

// setDates takes the first usable date of each kind.
func (e *Entry) setDates(n *node, changed, appeared []elementName) {
	e.Updated, e.Published = firstDate(n, changed), firstDate(n, appeared)
	if e.Updated.IsZero() {
		e.Updated = e.Published
	}
}

// firstDate is the first usable date of the named children, in the order of the names; few are tried (P8).
func firstDate(n *node, names []elementName) time.Time {
	const most = 8
	tried := 0
	for _, name := range names {
		for _, k := range n.kids {
			if k.name(name.vocabulary) != name.local || tried == most {
				continue
			}
			text := strings.TrimSpace(k.content())
			if text == "" || len(text) > maxDate {
				continue
			}
			if t := parseDate(text); !t.IsZero() {
				return t
			}
			tried++
		}
	}
	return time.Time{}
}

func (r *reader) atomEntry(e *Entry, n *node) {
	author := n.child(atomVocabulary, "author")
	if source := n.child(atomVocabulary, "source"); source != nil && author == nil {
		author = source.child(atomVocabulary, "author")
	}
	e.Author = personName(author)
	e.Title = r.title(n.first(elementName{atomVocabulary, "title"}, elementName{dublinCore, "title"}))
	e.setDates(n, atomChanged, atomAppeared)
	e.atomLinks(n)
	e.identify(fromID, n.childText(atomVocabulary, "id"))
	e.identify(fromLink, alternate(e.Links))
	for i, l := range e.Links { // resources are known by the escaped form, keys by the written one
		if u, err := url.Parse(l.Href); err == nil {
			e.Links[i].Href = u.String()
		}
	}
}

// personName is the name of one of Atom's persons, else the address; "" for nil.
func personName(n *node) string {
	if n == nil {
		return ""
	}
	return cmp.Or(n.childText(atomVocabulary, "name"), n.childText(atomVocabulary, "email"))
}

const maxTitle = 16 << 10 // bytes; a longer one is no title

// title is Atom's title; of XHTML the markup in its div.
func (r *reader) title(n *node) string {
	if n == nil || !strings.Contains(strings.ToLower(n.attr("type")), "xhtml") {
		return plainTitle(n)
	}
	markup := r.canon.innerMarkup(n)
	if len(markup) > maxTitle {
		return ""
	}
	isElement := func(k *node) bool { return k.isElement() }
	if first := slices.IndexFunc(n.kids, isElement); first >= 0 && n.kids[first].local == "div" &&
		!slices.ContainsFunc(n.kids[first+1:], isElement) {
		markup = r.canon.innerMarkup(n.kids[first])
	}
	return strings.TrimSpace(markup)
}

// plainTitle is a title that is text, or markup written as text; "" for nil.
func plainTitle(n *node) string {
	if n == nil {
		return ""
	}
	if text := strings.TrimSpace(n.content()); len(text) <= maxTitle {
		return text
	}
	return ""
}

// rssIdentity finds the key of an item: guid, rdf:about, atom:id, the link to its page.
func (r *reader) rssIdentity(e *Entry, n *node, page string) {
	e.identify(fromGUID, n.childText(rssVocabulary, "guid"))
	for _, a := range n.attrs {
		if strings.EqualFold(a.local, "about") && (a.uri == "" || vocabularyOf(a.uri) == rdfVocabulary) {
			e.identify(fromID, strings.TrimSpace(a.value))
		}
	}
	e.identify(fromID, n.childText(atomVocabulary, "id"))
	e.identify(fromLink, page)
	guid := n.child(rssVocabulary, "guid")
	if guid == nil || strings.EqualFold(strings.TrimSpace(guid.attr("isPermaLink")), "false") {
		return
	}
	if slices.ContainsFunc(e.Links, Link.isAlternate) {
		return
	}
	if at := strings.TrimSpace(guid.content()); strings.HasPrefix(at, "http://") || strings.HasPrefix(at, "https://") {
		e.Links = append(e.Links, Link{Rel: "alternate", Href: at, Length: -1})
	}
}

// maxKey bounds a key in bytes; a longer one is replaced by its digest (P8).
const maxKey = 2000

// identify sets the key unless it is set.
func (e *Entry) identify(from, key string) {
	if e.Key != "" || key == "" {
		return
	}
	if len(key) > maxKey {
		sum := sha256.Sum256([]byte(key))
		key = digestKey + hex.EncodeToString(sum[:])
	}
	e.Key, e.KeyFrom = key, from
}

// linkOf is the target of an RSS link: its text, or its href as in Atom.
func linkOf(n *node) string {
	return cmp.Or(strings.TrimSpace(n.content()), strings.TrimSpace(n.attr("href")))
}

// alternate is the target of the link to the entry's page, else of the first link.
func alternate(links []Link) string {
	if len(links) == 0 {
		return ""
	}
	return links[max(0, slices.IndexFunc(links, Link.isAlternate))].Href
}

// makeLink is the link in an element whose address is ref.
func makeLink(n *node, rel, ref string) Link {
	length, err := strconv.ParseInt(strings.TrimSpace(n.attr("length")), 10, 64)
	if err != nil || length < 0 {
		length = -1
	}
	return Link{Rel: relation(rel), Href: n.at.resolve(ref), Type: strings.TrimSpace(n.attr("type")), Length: length}
}

// atomLinks adds Atom's links of an entry, which some items have too.
func (e *Entry) atomLinks(n *node) {
	for _, k := range n.kids {
		if href := k.attr("href"); k.name(atomVocabulary) == "link" && href != "" && len(e.Links) < maxEntryLinks {
			e.Links = append(e.Links, makeLink(k, k.attr("rel"), href))
		}
	}
}

// relation is the usual form of a link relation.
func relation(rel string) string {
	rel = strings.ToLower(strings.TrimSpace(rel))
	for _, registry := range []string{"http://www.iana.org/assignments/relation/",
		"https://www.iana.org/assignments/relation/"} {
		rel = strings.TrimPrefix(rel, registry)
	}
	return cmp.Or(rel, "alternate")
}

func (l Link) isAlternate() bool { return l.Rel == "alternate" }

// baseOf is the xml:base of an entry's own document: the feed's declared one, else the feed's URL if anything in the
// entry needs it, else "". Without need none is set, because an entry must be equal bytes from every URL.
func baseOf(n *node) string {
	if n.at.base == nil || !n.at.declared && !relative(n) {
		return ""
	}
	return n.at.base.String()
}

// relative reports whether n has a known reference that needs a base.
func relative(n *node) bool {
	needs := func(ref string) bool { ref = strings.TrimSpace(ref); return ref != "" && !absolute(ref) }
	return slices.ContainsFunc(n.attrs, func(a attribute) bool {
		known := a.uri == nsXML && a.local == "base" ||
			a.uri == "" && (a.local == "href" || a.local == "src" || a.local == "url")
		return known && needs(a.value)
	}) || n.name(rssVocabulary) == "link" && needs(linkOf(n)) || slices.ContainsFunc(n.kids, relative)
}

func (r *reader) rssItem(e *Entry, n *node) {
	e.Title = plainTitle(n.first(elementName{rssVocabulary, "title"}, elementName{dublinCore, "title"}))
	if author := n.first(rssAuthors...); author != nil {
		e.Author = strings.TrimSpace(author.content())
	} else if author := n.child(atomVocabulary, "author"); author != nil {
		e.Author = author.childText(atomVocabulary, "name")
	}
	e.setDates(n, rssChanged, rssAppeared)
	var enclosures []Link
	for _, k := range n.kids {
		if len(e.Links)+len(enclosures) == maxEntryLinks {
			break
		}
		switch k.name(rssVocabulary) {
		case "link":
			if to := linkOf(k); to != "" {
				e.Links = append(e.Links, Link{Rel: "alternate", Href: k.at.resolve(to), Length: -1})
			}
		case "enclosure":
			if to := k.attr("url"); to != "" {
				enclosures = append(enclosures, makeLink(k, "enclosure", to))
			}
		}
	}
	page := ""
	if len(e.Links) > 0 {
		page = e.Links[0].Href
	}
	e.Links = append(e.Links, enclosures...)
	e.atomLinks(n)
	r.rssIdentity(e, n, page)
}

// tombstone makes an Entry of an at:deleted-entry (RFC 6721).
func (r *reader) tombstone(n *node) (*Entry, error) {
	e := &Entry{Deleted: true}
	e.identify(fromID, strings.TrimSpace(n.attr("ref")))
	if e.Key == "" {
		return nil, entryError("a deleted-entry that does not say which (no ref)")
	}
	e.Author, e.Updated = personName(n.child(tombstones, "by")), parseDate(n.attr("when"))
	return e, nil
}

// maxDate is more than the bytes of any date, so that no long text is tried in vain (P8).
const maxDate = 100

// The layouts of the dates that feeds have, of two readings of a date the usual one first; those with a zone's name are
// behind the empty line.
//
//go:embed dates.txt
var layoutText string

var numberLayouts, zoneLayouts = func() ([]string, []string) {
	numbers, zones, _ := strings.Cut(strings.TrimSpace(layoutText), "\n\n")
	return strings.Split(numbers, "\n"), strings.Split(zones, "\n")
}()

// zoneOffsets are those of time zones with a name, wherever it stands; of two zones with one name that of North
// America, or of western Europe.
var zoneOffsets = map[string]string{
	"EST": "-0500", "EDT": "-0400", "CST": "-0600", "CDT": "-0500", "MST": "-0700", "MDT": "-0600", "PST": "-0800",
	"PDT": "-0700", "WEST": "+0100", "BST": "+0100", "CET": "+0100", "CEST": "+0200", "EET": "+0200",
	"EEST": "+0300",
}

// lastOffsets are those of zones whose names only count as the last word of a date, in place of an offset.
var lastOffsets = map[string]string{
	"WET": "+0000", "WEST": "+0100", "EET": "+0200", "SAST": "+0200", "EEST": "+0300", "MSK": "+0300",
	"HKT": "+0800", "SGT": "+0800", "AWST": "+0800", "JST": "+0900", "KST": "+0900", "AEST": "+1000", "AEDT": "+1100",
	"NZST": "+1200", "NZDT": "+1300", "BRT": "-0300", "ART": "-0300",
}

// parseDate reads a date in any of the forms that feeds have: those of the layouts, the W3C's years and months,
// RFC 3339 in lower case and RFC 822 in other languages. It is zero for anything else, and for 0000-00-00 and its like,
// which stand for no date.
func parseDate(text string) time.Time {
	text = strings.TrimSpace(text)
	if len(text) > maxDate {
		return time.Time{}
	}
	t, ok := layoutDate(text)
	for _, layout := range []string{time.RFC3339, "2006-01", "2006"} {
		if !ok {
			t, ok = parseAs(layout, strings.ToUpper(text))
		}
	}
	if !ok {
		t = translatedDate(text)
	}
	if t.Year() < 1000 || t.Year() > 9999 {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// layoutDate reads a date by the layouts.
func layoutDate(text string) (time.Time, bool) {
	at := strings.LastIndexByte(text, ' ') + 1
	if offset := lastOffsets[text[at:]]; offset != "" {
		text = text[:at] + offset
	}
	if t, ok := parseAsAny(numberLayouts, text); ok {
		return t, true
	}
	t, ok := parseAsAny(zoneLayouts, text)
	if zone, _ := t.Zone(); ok && zoneOffsets[zone] != "" { // a name alone is taken for UTC
		return parseAs(time.DateTime+" -0700", t.Format("2006-01-02 15:04:05.999999999 ")+zoneOffsets[zone])
	}
	return t, ok
}

func parseAsAny(layouts []string, text string) (time.Time, bool) {
	for _, layout := range layouts {
		if t, ok := parseAs(layout, text); ok {
			return t, true
		}
	}
	return time.Time{}, false
}

// parseAs takes a zone that is not known for UTC, wherever this machine is.
func parseAs(layout, text string) (time.Time, bool) {
	t, err := time.ParseInLocation(layout, text, time.UTC)
	return t, err == nil
}

// translatedDate reads "[Mi,] 3. Dez 2025 09:39[:21] [GMT][+02:00]", in the languages that month knows; it is zero for
// anything else.
func translatedDate(text string) time.Time {
	f := strings.Fields(strings.ToLower(text))
	if len(f) > 1 && strings.Trim(f[0], "0123456789.") != "" { // the weekday, often wrong
		f = f[1:]
	}
	if len(f) < 4 || len(f) > 5 {
		return time.Time{}
	}
	offset := "+0000"
	if len(f) == 5 {
		offset = strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(f[4], "gmt"), "utc"), ":", "")
		if offset == "" || offset == "z" {
			offset = "+0000"
		}
	}
	date := strings.TrimSuffix(f[0], ".") + " " + month(f[1]) + " " + f[2] + " " + f[3] + " " + offset
	t, _ := parseAsAny([]string{"2 Jan 2006 15:04:05 -0700", "2 Jan 2006 15:04 -0700", "2 Jan 06 15:04:05 -0700"}, date)
	return t
}

// months are how names of the months begin in western European languages.
var months = [12]string{
	"jan ene gen", "feb fév fev", "mar mär mrz mrt maa", "apr avr abr", "may mai mag mei maj", "jun giu juin",
	"jul jui lug", "aug aoû aou ago", "sep set", "oct okt ott out", "nov", "dec dez déc dic",
}

// month is the English abbreviation of a month's name or abbreviation.
func month(name string) string {
	letters := []rune(name)
	for _, length := range []int{4, 3} { // juin is no juillet
		begin := string(letters[:min(length, len(letters))])
		for i, names := range months {
			if slices.Contains(strings.Fields(names), begin) {
				return time.Month(i + 1).String()[:3]
			}
		}
	}
	return name
}
