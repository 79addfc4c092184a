// Package rsdoc knows the ResourceSync documents: it reads and writes them as streams and knows their values (times,
// digests, intervals). It refuses to know where a document comes from: no network, no files, no policy.
//
// Rules are cited as [n], the sections of the core specification 1.1 (ANSI/NISO Z39.99-2017), and as [digest n], those
// of our digest of it (resourcesync-core.md).
package rsdoc

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Namespaces of the elements [3]. The attributes of rs:md and rs:ln are in no namespace.
const (
	NamespaceSitemap = "http://www.sitemaps.org/schemas/sitemap/0.9"
	NamespaceRS      = "http://www.openarchives.org/rs/terms/"
)

// Kind is the capability of a document's root rs:md, in lower case. Unknown values are kept as they stand.
type Kind string

// The kinds of core 1.1, Archives 0.9.1 and Notification 1.0.1. The reader maps older spellings onto these.
const (
	KindUnknown               Kind = "" // the root has no rs:md: the referring document decides
	KindDescription           Kind = "description"
	KindCapabilityList        Kind = "capabilitylist"
	KindResourceList          Kind = "resourcelist"
	KindChangeList            Kind = "changelist"
	KindResourceDump          Kind = "resourcedump"
	KindResourceDumpManifest  Kind = "resourcedump-manifest"
	KindChangeDump            Kind = "changedump"
	KindChangeDumpManifest    Kind = "changedump-manifest"
	KindResourceListArchive   Kind = "resourcelist-archive"
	KindResourceDumpArchive   Kind = "resourcedump-archive"
	KindChangeListArchive     Kind = "changelist-archive"
	KindChangeDumpArchive     Kind = "changedump-archive"
	KindChangeNotification    Kind = "change-notification"
	KindFrameworkNotification Kind = "framework-notification"
)

// Shape separates a list from an index, by the root element [9, 10.2, 12.2].
type Shape uint8

const (
	List Shape = iota
	Index
)

// Relations of rs:ln that the Destination uses [5, 7, 14].
const (
	RelUp           = "up"
	RelIndex        = "index"
	RelDescribedBy  = "describedby"
	RelArchives     = "archives"
	RelHub          = "hub"
	RelContents     = "contents"
	RelDuplicate    = "duplicate"
	RelCollection   = "collection"
	RelDescribes    = "describes"
	RelResourceSync = "resourcesync" // 0.9: what is "up" today
	RelPatch        = "http://www.openarchives.org/rs/terms/patch"
)

// Head is what the root says about the whole document. NewHead makes one: in the zero value the times are known.
type Head struct {
	Shape Shape
	// Kind is Options.Assume where the root says nothing.
	Kind Kind
	// RawKind is the capability as written, for messages.
	RawKind string
	// HasMD separates a document with an rs:md on its root from a plain Sitemap.
	HasMD bool
	// At and Completed belong to snapshots, From and Until to change documents [7]; NoTime where unreadable. Until
	// present means closed: the document will never change again. The reader gives the from of a snapshot of 0.9 as At
	// too.
	At, Completed, From, Until Micros
	Links                      []Link
}

// Link is one rs:ln [7]. Href is absolute and never empty. NewLink makes one.
type Link struct {
	// Rel is the relation as written. In documents of 0.9 "up" led from a list to its index and "resourcesync" to the
	// Capability List. No document states its version, so the kind of the target decides [digest 16].
	Rel  string
	Href string
	// Pri is 1 to 999,999, lower is preferred.
	Pri      int
	Modified Micros
	Type     string
	Profile  string // as written; only the schema has it
	Length   int64  // -1 where absent or unreadable
	Digests  []Digest
	Path     string
}

// Change is the change attribute of an entry [12], in any letter case.
type Change uint8

// ChangeNone is the absence of the attribute, right in snapshots. ChangeUnknown is an unspecified value: the reader
// skips such an entry in documents of changes (F46).
const (
	ChangeNone Change = iota
	ChangeCreated
	ChangeUpdated
	ChangeDeleted
	ChangeUnknown
)

// Entry is one url or sitemap element. The reader reuses it: an Entry and its slices are valid until the next call of
// Next. NewEntry makes one to be written.
type Entry struct {
	// Loc is the URI exactly as given, unescaped and trimmed; a relative reference is resolved.
	Loc     string
	LastMod Micros
	// Capability is the kind of the document at Loc.
	Capability Kind
	Change     Change
	// Datetime is the time of the change (1.1); LastMod meant that in 1.0 [7].
	Datetime                   Micros
	At, Completed, From, Until Micros
	// Digests are the usable ones, strongest first.
	Digests []Digest
	// BadDigests counts the tokens that are neither usable nor of an unknown algorithm.
	BadDigests int
	Length     int64 // -1 where absent or unreadable
	Type       string
	Encoding   string
	// Path is the location of the bitstream in the package, as written: check it before use [digest 6].
	Path  string
	Links []Link
	// BadLinks counts the omitted rs:ln.
	BadLinks int
	HasMD    bool
	// Ordinal is the position in the document, counting skipped entries too.
	Ordinal int64
	// Fault is why only Loc may be used, "" for a good entry (Options.Faulty).
	Fault string
}

const noPri = 999_999

// NewHead is the head of a document of that shape and kind.
func NewHead(shape Shape, kind Kind) Head {
	return Head{
		Shape: shape, Kind: kind, RawKind: string(kind), HasMD: kind != KindUnknown,
		At: NoTime, Completed: NoTime, From: NoTime, Until: NoTime,
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
	links := slices.DeleteFunc(slices.Clone(h.Links), func(l Link) bool { return !strings.EqualFold(l.Rel, rel) })
	if len(links) == 0 {
		return Link{}, false
	}
	return slices.MinFunc(links, func(a, b Link) int { return cmp.Compare(a.Pri, b.Pri) }), true
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

// Problem is why a document as a whole was refused.
type Problem uint8

// Nothing may be concluded from what a refused document does not list.
const (
	// NotXML is anything else, such as plain text, JSON or a ZIP.
	NotXML Problem = iota + 1
	// Malformed is not well-formed, or contradicts itself.
	Malformed
	// Forbidden is a document type or entity declaration: HTML pages and attacks have them.
	Forbidden
	// WrongEncoding is any encoding but UTF-8.
	WrongEncoding
	// WrongRoot is no urlset or sitemapindex in the Sitemap namespace.
	WrongRoot
	// WrongKind is a ResourceSync document of an unexpected capability.
	WrongKind
	// Truncated is an input that ended before the document did.
	Truncated
	// Limit is a document beyond Options.Limits.
	Limit
)

var problems = [...]string{
	"unknown problem", "not XML", "malformed", "forbidden markup", "wrong encoding", "wrong root", "wrong kind",
	"truncated", "over a limit",
}

// String names the problem for status, metrics and logs.
func (p Problem) String() string { return problems[p] }

// DocumentError is why and where a document was refused. Failures of the underlying reader (network, disk) are no
// DocumentErrors; they come wrapped, for errors.Is and errors.As.
type DocumentError struct {
	Problem Problem
	Offset  int64 // byte in the document, after inflating
	Detail  string
	cause   error
}

// CausePage is the cause of a document that is an HTML page.
const CausePage = "html-page"

const pageDetail = "an HTML page in place of a ResourceSync document"

// Cause is in a stable word what a document is in place of one, "" where no word stands for it.
func (e *DocumentError) Cause() string {
	if e.Detail == pageDetail {
		return CausePage
	}
	return ""
}

func (e *DocumentError) Error() string {
	return fmt.Sprintf("refused document (%s at byte %d): %s", e.Problem, e.Offset, e.Detail)
}

// Unwrap is the cause of a Truncated document, or gzip's error.
func (e *DocumentError) Unwrap() error {
	if e.cause == nil && e.Problem == Truncated {
		return io.ErrUnexpectedEOF
	}
	return e.cause
}
