// Package destination knows how a Destination reads a Source: it discovers what a Source offers, walks lists and
// indexes within bounds and remembers documents so that an unchanged one costs one 304. It refuses to know what is
// done with entries (sync) and how anything is stored (store).
//
// [NewReader] makes a Reader of one Source, with the fetch.Client that it may use and a [Memory] of documents.
// [Discover] follows a URL to an [Offer]: the sets, and for each its lists and its channels. [Reader.Walk] reads a
// list, or an index and its parts, and hands a [Visitor] each [List], whose entries come as they arrive.
// [DiscoverTopic] does for feeds what Discover does for ResourceSync. Which addresses may be named is said by a [Scope]
// and a [Filter].
//
// The rooms below speak one protocol each: rsdoc and feed read and write documents, websub requests and signatures,
// fetch is the only one that dials, gate limits those who come in, subscribe keeps subscriptions. peer plays the other
// two roles, a Source and a hub, for companions and tests.
package destination
