package source

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"iter"
	"mime"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"resyncd/destination/rsdoc"
)

// Where the documents are, below the root. The dot keeps the folder apart from real ones.
const (
	wellKnown         = ".well-known/resourcesync"
	documents         = ".resourcesync"
	capabilityList    = documents + "/capabilitylist.xml"
	resourceList      = documents + "/resourcelist.xml" // the list, or the index once the set is too large for one
	resourceListPart  = documents + "/resourcelist/"
	changeListIndex   = documents + "/changelist.xml"
	changeListPart    = documents + "/changelist/"
	changeListArchive = documents + "/changelist-archive.xml"
	changeTopic       = documents + "/topic/change"
	frameworkTopic    = documents + "/topic/framework"
	changeFeed        = documents + "/feed/changes.atom"
	changeFeedArchive = documents + "/feed/changes/"
	batchEndpoint     = documents + "/batch"
	patchDocuments    = documents + "/patch/"
)

// Where the record feed is: the name that the Resource Finder gave it. Its archives are below.
const (
	recordFeed        = "feeds/delta"
	recordFeedArchive = recordFeed + "/"
)

// document is a document, feed or topic. fetched: somebody reads it.
func (s *Source) document(name string, fetched bool) (text, error) {
	if f, archive := s.feedAt(name); f != nil {
		return f.text(archive, fetched)
	}
	for _, c := range s.setChannels() {
		if c.name == name {
			return c.text(fetched), nil
		}
	}
	switch name {
	case wellKnown:
		return s.descriptionDocument(), nil
	case capabilityList:
		return s.capabilityDocument(), nil
	case resourceList:
		n := s.resourceList()
		if parts := n.parts(); parts > 1 {
			return s.snapshotIndex(rsdoc.KindResourceList, resourceListPart, n, parts), nil
		}
		return s.resourceDocument(n, 0), nil
	case changeListIndex:
		return s.changeIndexDocument(), nil
	case changeListArchive:
		return s.archiveDocument()
	}
	if part, ok := strings.CutPrefix(name, resourceListPart); ok {
		if n, i, ok := s.part(part); ok {
			return s.resourceDocument(n, i), nil
		}
	}
	if sum, ok := strings.CutPrefix(name, patchDocuments); ok {
		return s.patches.document(sum)
	}
	if part, ok := strings.CutPrefix(name, changeListPart); ok {
		s.mu.RLock()
		l, changes, ok := s.journal.lookup(part)
		s.mu.RUnlock()
		if ok {
			return s.changeDocument(l, changes), nil
		}
	}
	return s.dumps.document(name)
}

// newDocument is a ResourceSync document, written anew each time and never held as a whole. Each of its entries is
// valid until the next.
func (s *Source) newDocument(tag string, modified rsdoc.Micros, head rsdoc.Head, entries iter.Seq[*rsdoc.Entry]) text {
	return text{
		tag: tag, modified: modified, mediaType: "application/xml",
		write: func(w io.Writer) error { return s.write(w, head, entries) },
	}
}

func (s *Source) descriptionDocument() text {
	head := rsdoc.NewHead(rsdoc.List, rsdoc.KindDescription)
	head.Links = s.describedBy()
	entries := []*rsdoc.Entry{s.capability(capabilityList, rsdoc.KindCapabilityList)}
	return s.newDocument("d", s.begin, head, slices.Values(entries))
}

func (s *Source) capabilityDocument() text {
	s.mu.RLock()
	since, changes, archived := s.journal.capabilities, changeListIndex, len(s.journal.archived) > 0
	if !s.journal.indexed() {
		changes = changeListPart + s.journal.open().name
	}
	s.mu.RUnlock()
	head := rsdoc.NewHead(rsdoc.List, rsdoc.KindCapabilityList)
	head.Links = append([]rsdoc.Link{rsdoc.NewLink(rsdoc.RelUp, s.Description())}, s.describedBy()...)
	entries := []*rsdoc.Entry{
		s.capability(resourceList, rsdoc.KindResourceList), s.capability(changes, rsdoc.KindChangeList),
	}
	if archived {
		entries = append(entries, s.capability(changeListArchive, rsdoc.KindChangeListArchive))
	}
	if s.dumps != nil {
		entries = append(entries,
			s.capability(resourceDump, rsdoc.KindResourceDump), s.capability(changeDump, rsdoc.KindChangeDump))
	}
	for _, c := range s.setChannels() {
		entry := s.capability(c.name, c.kind)
		entry.Links = []rsdoc.Link{rsdoc.NewLink(rsdoc.RelHub, c.hub.url)}
		entries = append(entries, entry)
	}
	return s.newDocument(fmt.Sprintf("c%x", int64(since)), since, head, slices.Values(entries))
}

func (s *Source) describedBy() []rsdoc.Link {
	if s.options.DescribedBy == "" {
		return nil
	}
	return []rsdoc.Link{rsdoc.NewLink(rsdoc.RelDescribedBy, s.options.DescribedBy)}
}

// capability is an entry for a document of the framework.
func (s *Source) capability(name string, kind rsdoc.Kind) *rsdoc.Entry {
	e := rsdoc.NewEntry(s.at(name))
	e.Capability = kind
	return &e
}

// newHead is the head of a document below the Capability List.
func (s *Source) newHead(shape rsdoc.Shape, kind rsdoc.Kind) rsdoc.Head {
	head := rsdoc.NewHead(shape, kind)
	head.Links = []rsdoc.Link{rsdoc.NewLink(rsdoc.RelUp, s.at(capabilityList))}
	return head
}

func (s *Source) write(w io.Writer, head rsdoc.Head, entries iter.Seq[*rsdoc.Entry]) error {
	out, err := rsdoc.NewWriter(w, head)
	if err != nil {
		return err
	}
	out.Spec10 = s.options.Spec == "1.0"
	for entry := range entries {
		if err := out.Write(entry); err != nil {
			return err
		}
	}
	return out.Close()
}

// resourceDocument is a Resource List: the only one, or a part [10].
func (s *Source) resourceDocument(n *snapshot, part int) text {
	head := s.newHead(rsdoc.List, rsdoc.KindResourceList)
	if n.parts() > 1 {
		head.Links = append(head.Links, rsdoc.NewLink(rsdoc.RelIndex, s.at(resourceList)))
	}
	head.At, head.Completed = n.at, n.completed
	return s.newDocument(fmt.Sprintf("r%x.%d", int64(n.at), part), n.at, head, eachEntry(n.part(part), s.describe))
}

// snapshotIndex is the index of a Resource List or Resource Dump [10.2, 11].
func (s *Source) snapshotIndex(kind rsdoc.Kind, below string, n *snapshot, parts int) text {
	head := s.newHead(rsdoc.Index, kind)
	at, completed := n.at, n.completed // of a dump it moves on
	head.At, head.Completed = at, completed
	var names []string
	for part := range parts {
		names = append(names, n.partName(part))
	}
	entries := eachEntry(names, func(e *rsdoc.Entry, name string) {
		*e = rsdoc.NewEntry(s.at(below + name))
		e.At, e.Completed = at, completed
	})
	return s.newDocument(fmt.Sprintf("i%x.%x", int64(at), int64(completed)), completed, head, entries)
}

// changeDocument is a Change List [12]. One that is open grows at its end.
func (s *Source) changeDocument(l changeList, changes []event) text {
	head := s.newHead(rsdoc.List, rsdoc.KindChangeList)
	head.Links = append(head.Links, rsdoc.NewLink(rsdoc.RelIndex, s.at(changeListIndex)))
	head.From, head.Until = l.from, l.until
	modified := l.from
	switch n := len(changes); {
	case l.closed():
		modified = l.until
	case n > 0:
		modified = changes[n-1].at
	}
	tag := fmt.Sprintf("l%x.%d.%t", int64(l.from), len(changes), l.closed())
	return s.newDocument(tag, modified, head, s.eventEntries(changes))
}

// eventEntries are changes of resources, or documents of the framework.
func (s *Source) eventEntries(events []event) iter.Seq[*rsdoc.Entry] {
	return eachEntry(events, func(e *rsdoc.Entry, what event) {
		if d := what.document; d != nil {
			*e = rsdoc.NewEntry(d.loc)
			e.Capability = d.kind
			if d.index != "" {
				e.Links = []rsdoc.Link{rsdoc.NewLink(rsdoc.RelIndex, d.index)}
			}
		} else {
			s.describe(e, what.record)
			if what.patch != nil && what.live {
				e.Links = append(e.Links, s.patchLink(what.patch))
			}
		}
		e.Change, e.Datetime = what.kind, what.at
	})
}

// changeIndexDocument is the Change List Index [12.2], which has no `until`.
func (s *Source) changeIndexDocument() text {
	s.mu.RLock()
	lists := slices.Clone(s.journal.published())
	modified, from := s.journal.open().from, s.journal.reaches()
	archived := len(s.journal.archived) > 0
	s.mu.RUnlock()
	head := s.newHead(rsdoc.Index, rsdoc.KindChangeList)
	if archived {
		head.Links = append(head.Links, rsdoc.NewLink(rsdoc.RelArchives, s.at(changeListArchive)))
	}
	head.From = from
	return s.newDocument(fmt.Sprintf("j%x", int64(modified)), modified, head, s.intervals(lists))
}

// archiveDocument lists the Change Lists that have left the index (Archives 2).
func (s *Source) archiveDocument() (text, error) {
	s.mu.RLock()
	lists := slices.Clone(s.journal.archived)
	modified := s.journal.open().from
	s.mu.RUnlock()
	if len(lists) == 0 {
		return text{}, errAbsent
	}
	head := s.newHead(rsdoc.List, rsdoc.KindChangeListArchive)
	return s.newDocument(fmt.Sprintf("a%x", int64(modified)), modified, head, s.intervals(lists)), nil
}

// intervals lists Change Lists, oldest first.
func (s *Source) intervals(lists []changeList) iter.Seq[*rsdoc.Entry] {
	return eachEntry(lists, func(e *rsdoc.Entry, l changeList) {
		*e = rsdoc.NewEntry(s.at(changeListPart + l.name))
		e.From, e.Until = l.from, l.until
	})
}

// eachEntry writes what fill says about each of all. An entry is valid until the next.
func eachEntry[T any](all []T, fill func(*rsdoc.Entry, T)) iter.Seq[*rsdoc.Entry] {
	return func(yield func(*rsdoc.Entry) bool) {
		var entry rsdoc.Entry
		for _, one := range all {
			if fill(&entry, one); !yield(&entry) {
				return
			}
		}
	}
}

// describe fills an entry with what is known about a resource, of a dead one its URI alone. It uses the slices again.
func (s *Source) describe(entry *rsdoc.Entry, rec *record) {
	digests, links := entry.Digests[:0], entry.Links[:0]
	*entry = rsdoc.NewEntry(s.URI(rec.name))
	entry.Digests, entry.Links = digests, links
	s.relate(entry, rec.live)
	if rec.live {
		entry.Digests = s.appendDigests(digests, rec)
		entry.Length, entry.Type, entry.LastMod = rec.length, s.mediaType(rec.name), seconds(rec.modified)
	}
}

// seconds is a Last-Modified time, or none where W3C Datetime cannot write it.
func seconds(unix int64) rsdoc.Micros {
	if unix < -62_135_596_800 || unix > 253_402_300_799 {
		return rsdoc.NoTime
	}
	return rsdoc.Micros(unix * 1_000_000)
}

const upperHex = "0123456789ABCDEF"

// escapeName makes the path of a URI from a name. It escapes what a client, a proxy or a file system might treat as
// special (F80, F81).
func escapeName(name string) string {
	b := make([]byte, 0, len(name))
	for i := range len(name) {
		if c := name[i]; plainByte(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return string(b)
}

func plainByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("/-._~+,=@()", c) >= 0
}

// requestName is the name that a request asks for. Escaped slashes, empty segments, dots and NUL are refused.
func requestName(u *url.URL) (string, bool) {
	p, ok := strings.CutPrefix(u.EscapedPath(), "/")
	if !ok {
		return "", false
	}
	segments := strings.Split(p, "/")
	for i, s := range segments {
		s, err := url.PathUnescape(s)
		if err != nil || !validSegment(s) {
			return "", false
		}
		segments[i] = s
	}
	return strings.Join(segments, "/"), true
}

func validSegment(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/\x00")
}

func validName(name string) bool {
	for s := range strings.SplitSeq(name, "/") {
		if !validSegment(s) {
			return false
		}
	}
	return !reservedName(name)
}

// reserved reports the names that no resource of this Source can have.
func (s *Source) reserved(name string) bool {
	return reservedName(name) ||
		s.recordFeed != nil && (name == recordFeed || strings.HasPrefix(name, recordFeedArchive))
}

// reservedName reports the names of the Source's own documents.
func reservedName(name string) bool {
	return name == wellKnown || name == documents || strings.HasPrefix(name, documents+"/")
}

// mediaType guesses from the name; made-up resources are text. It has no parameters, which the schema of rs:md does not
// allow [6].
func (s *Source) mediaType(name string) string {
	switch {
	case strings.HasSuffix(name, packageEnd): // a package too, whatever the machine's table says
		return "application/zip"
	case s.options.Synthetic != nil:
		return "text/plain"
	}
	if t, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(name)), ";"); t != "" {
		return t
	}
	return "application/octet-stream"
}

// ParseHashes reads a list of algorithms divided by commas.
func ParseHashes(list string) ([]rsdoc.Algorithm, error) {
	known := []rsdoc.Algorithm{rsdoc.MD5, rsdoc.SHA1, rsdoc.SHA256, rsdoc.SHA384, rsdoc.SHA512}
	var out []rsdoc.Algorithm
	for name := range strings.SplitSeq(list, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		i := slices.IndexFunc(known, func(a rsdoc.Algorithm) bool { return a.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("hash %q: want md5, sha-1, sha-256, sha-384 or sha-512", name)
		}
		if !slices.Contains(out, known[i]) {
			out = append(out, known[i])
		}
	}
	return out, nil
}

var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// fill reads r to its end and sets the length and the sums of rec. SHA-256 is always computed: it is the ETag.
func (s *Source) fill(rec *record, r io.Reader) error {
	main := sha256.New()
	all := []io.Writer{main}
	var others []hash.Hash
	for _, a := range s.options.Hashes {
		if a != rsdoc.SHA256 {
			h := a.New()
			all, others = append(all, h), append(others, h)
		}
	}
	buf := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buf)
	var err error
	// Without the struct, files would be copied through a buffer of their own.
	if rec.length, err = io.CopyBuffer(io.MultiWriter(all...), struct{ io.Reader }{r}, buf[:]); err != nil {
		return err
	}
	main.Sum(rec.sum[:0])
	var sums []byte
	for _, h := range others {
		sums = h.Sum(sums)
	}
	rec.sums = string(sums)
	return nil
}

// appendDigests adds the published digests of rec to dst, in the order asked for.
func (s *Source) appendDigests(dst []rsdoc.Digest, rec *record) []rsdoc.Digest {
	sums := rec.sums
	for _, a := range s.options.Hashes {
		digest := rsdoc.Digest{Alg: a}
		if a == rsdoc.SHA256 {
			copy(digest.Sum[:], rec.sum[:])
		} else {
			copy(digest.Sum[:], sums[:a.Size()])
			sums = sums[a.Size():]
		}
		dst = append(dst, digest)
	}
	return dst
}
