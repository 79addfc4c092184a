// Package rsdoc knows the ResourceSync documents: it reads and writes them as streams and knows
// their values (times, digests, intervals). It refuses to know where a document comes from: no
// network, no files, no policy.
//
// Rules are cited as [n], the sections of the core specification 1.1 (ANSI/NISO Z39.99-2017), as
// [digest n], those of our digest of it (resourcesync-core.md), and as Fn, the faults of faults.md.
package rsdoc

// Namespaces of the elements [3]. The attributes of rs:md and rs:ln are in no namespace.
const (
	NamespaceSitemap = "http://www.sitemaps.org/schemas/sitemap/0.9"
	NamespaceRS      = "http://www.openarchives.org/rs/terms/"
)

// Kind is what a document says it is: the capability of its root rs:md, in lower case without
// surrounding space. Unknown values are kept as they stand; a reader skips them and never fails on
// them.
type Kind string

// The kinds of core 1.1, Archives 0.9.1 and Notification 1.0.1. Older spellings are mapped onto these by the reader:
// "resourcesync" (0.9) becomes KindDescription, "changelist-notification" (0.9, 1.0) becomes KindChangeNotification.
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

// Shape separates a list from an index. Only the root element decides it [9, 10.2, 12.2].
type Shape uint8

// The two shapes: urlset and sitemapindex.
const (
	List Shape = iota
	Index
)

// Relations of rs:ln that the Destination uses [5, 7, 14]. Others are kept as they stand.
const (
	RelUp           = "up"
	RelIndex        = "index"
	RelDescribedBy  = "describedby"
	RelArchives     = "archives"
	RelContents     = "contents"
	RelHub          = "hub"
	RelDuplicate    = "duplicate"
	RelAlternate    = "alternate"
	RelVia          = "via"
	RelResourceSync = "resourcesync" // 0.9: what is "up" today
	RelPatch        = "http://www.openarchives.org/rs/terms/patch"
)

// Head is what the root says about the whole document. Make one with NewHead: in the zero value the
// times are known.
type Head struct {
	Shape Shape
	// Kind is Options.Assume, if given, where the root says nothing.
	Kind Kind
	// RawKind is the capability as written, for messages; "" where the root has none.
	RawKind string
	// HasMD separates a document with an rs:md on its root from a plain Sitemap (and from the
	// notifications of 0.9).
	HasMD bool
	// At and Completed belong to snapshots, From and Until to change documents [7]; NoTime where
	// absent or unreadable. Until present means closed: the document has everything up to it and
	// will never change again. A snapshot of 0.9 has from in place of at: the reader
	// gives it as At too.
	At, Completed, From, Until Micros
	Modified                   Micros // 0.5, 0.6 only
	Links                      []Link
	// Warnings describes the first few unreadable parts of the root, which count as absent.
	Warnings []string
}

// Link is one rs:ln [7]. Href is absolute (resolved against the document's base) and never empty.
// Make one with NewLink.
type Link struct {
	// Rel is the relation as written, trimmed. In documents of 0.9 "up" led from a list to its
	// index and "resourcesync" to the Capability List; later versions have "index" and "up" for
	// these. Nothing is translated, because no document states its version: the kind of the target
	// decides [digest 16].
	Rel  string
	Href string
	// Pri is 1 to 999,999, lower is preferred; absent or unreadable is 999,999.
	Pri      int
	Modified Micros
	Type     string
	Length   int64 // -1 where absent or unreadable
	Digests  []Digest
	Path     string
}

// Change is the change attribute of an entry [12], in any letter case.
type Change uint8

// The changes. ChangeNone is the absence of the attribute: right in snapshots; in a document of
// changes the caller decides (parts of a wrongly rooted index have none). ChangeUnknown is an
// unspecified value: the reader skips and counts such an entry in documents of changes (F46), and
// keeps it elsewhere.
const (
	ChangeNone Change = iota
	ChangeCreated
	ChangeUpdated
	ChangeDeleted
	ChangeUnknown
)

// Entry is one url or sitemap element. The reader reuses it: an Entry and its slices are valid
// until the next call of Next; strings may be kept. To write one, make it with NewEntry: in the
// zero value the times are known and the length is 0.
type Entry struct {
	// Loc is the URI exactly as given, XML unescaped and trimmed; a relative reference is resolved against the base.
	Loc     string
	LastMod Micros
	// Capability is the kind of the document at Loc (Capability List, Source Description, framework notification).
	Capability Kind
	Change     Change
	// Datetime is the time of the change (1.1); LastMod meant that in 1.0 [7].
	Datetime                   Micros
	At, Completed, From, Until Micros
	// Digests are the usable ones, strongest first: sha-512, sha-384, sha-256, sha-1, md5.
	Digests []Digest
	// BadDigests counts the tokens that are neither usable nor of an unknown algorithm.
	BadDigests int
	Length     int64 // -1 where absent or unreadable
	Type       string
	Encoding   string
	// Path is the location of the bitstream in the package, as written: check it before use [digest
	// 6].
	Path  string
	Links []Link
	// BadLinks counts the omitted rs:ln: without rel or href, or with an href that is no URI.
	BadLinks int
	// HasMD reports whether the entry has an rs:md.
	HasMD bool
	// Ordinal is the position in the document, from 0, counting skipped entries too.
	Ordinal int64
	// Fault is why only Loc may be used, "" for a good entry (Options.Faulty).
	Fault string
}
