package destination

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"slices"

	"resyncd/destination/feed"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/destination/websub"
)

type finding struct {
	url   string
	final string // after redirects
	kind  rsdoc.Kind
	head  rsdoc.Head
	// doc is the whole document of a Source Description or a Capability List, else nil.
	doc *Document
	// page says that it is no ResourceSync document; links lead to such documents.
	page  bool
	links []Hop
	// feed is the kind of feed that it is instead; feeds and hubs are those that it names.
	feed  feed.Kind
	feeds []string
	hubs  []string
	why   error
	err   error
}

func (fd *finding) usable() bool {
	switch {
	case fd.err != nil:
		return false
	case fd.page:
		return len(fd.links) > 0 || fd.feed != feed.None
	}
	return fd.doc != nil || fd.kind == rsdoc.KindUnknown || isOffered(fd.kind)
}

// describes reports a Source Description, its index, or an index of Capability Lists, which 0.5 had [9, 16].
func (fd *finding) describes() bool {
	return fd.doc != nil && (fd.kind == rsdoc.KindDescription ||
		fd.kind == rsdoc.KindCapabilityList && fd.head.Shape == rsdoc.Index)
}

func (fd *finding) result() string {
	switch {
	case fd.err != nil:
		return shortly(fd.err)
	case fd.page && fd.feed != feed.None:
		return "a feed"
	case fd.page && len(fd.links) == 0:
		return "no link to a Capability List, and no ResourceSync document itself: " + fd.why.Error()
	case fd.page:
		return "a page that links to " + fetch.RedactURL(fd.links[0].URL)
	}
	s := kindName(fd.kind)
	if fd.head.Shape == rsdoc.Index {
		s += " Index"
	}
	if fd.doc != nil && fd.doc.NotModified {
		s += " (unchanged)"
	}
	return s
}

// inspect reads what is at a URL and decides by content alone. Only the head of a list is read, because it may be of
// any length.
func (r *Reader) inspect(ctx context.Context, url string, p *retryWindow) (*finding, error) {
	known, err := r.recall(ctx, url)
	if err != nil {
		return nil, err
	}
	var fd *finding
	err = r.take(ctx, p, r.request(url, validators(known)), func(a *answer) error {
		if a.NotModified {
			d := unchanged(known, a)
			fd = &finding{url: url, final: a.URL, kind: d.Head.Kind, head: d.Head, doc: d}
			if !isDirectory(fd.kind) {
				fd.doc = nil
			}
			return nil
		}
		fd, err = r.look(url, a)
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return &finding{url: url, err: err}, nil
	}
	if fd.doc != nil && !fd.doc.NotModified {
		return fd, r.remember(ctx, distrustEmpty(fd.doc))
	}
	return fd, nil
}

// distrustEmpty drops the validators of a document that names nothing: if that was a mistake, 304s would repeat it for
// ever (F59, F71).
func distrustEmpty(d *Document) *Document {
	if len(d.Entries) > 0 {
		return d
	}
	empty := *d
	empty.ETag, empty.LastModified = "", ""
	return &empty
}

func (r *Reader) look(url string, a *answer) (*finding, error) {
	tape := &recorder{r: a.Body}
	doc, err := open(tape, a.base, rsdoc.KindUnknown)
	var h *rsdoc.Head
	if err == nil {
		h, err = doc.Head()
	}
	if err != nil {
		if e, ok := errors.AsType[*rsdoc.DocumentError](err); ok && e.Problem != rsdoc.Truncated &&
			e.Problem != rsdoc.Limit {
			fd := r.page(url, a, tape)
			fd.why = e
			if e.Problem == rsdoc.Malformed && len(fd.links) == 0 && fd.feed == feed.None {
				return nil, e // a broken document, not another kind
			}
			return fd, nil
		}
		return nil, broken(err)
	}
	kind := h.Kind
	var first *rsdoc.Entry
	if kind == rsdoc.KindUnknown {
		first, err = doc.Next()
		if err != nil && err != io.EOF {
			return nil, broken(err)
		}
		if first != nil && first.Fault == "" {
			kind = directoryOf(first.Capability)
		} else {
			first = nil
		}
	}
	if !isDirectory(kind) {
		head := *h
		head.Links = cloneLinks(h.Links)
		return &finding{url: url, final: a.URL, kind: h.Kind, head: head}, nil
	}
	d, err := r.readWhole(url, a, doc, first, kind)
	if err != nil {
		return nil, err
	}
	d.Head.Kind = kind
	return &finding{url: url, final: a.URL, kind: kind, head: d.Head, doc: d}, nil
}

// directoryOf derives the kind of a document without rs:md from its first entry [17.2].
func directoryOf(entry rsdoc.Kind) rsdoc.Kind {
	switch {
	case entry == rsdoc.KindCapabilityList:
		return rsdoc.KindDescription
	case isOffered(entry), entry == rsdoc.KindChangeNotification,
		entry == rsdoc.KindFrameworkNotification:
		return rsdoc.KindCapabilityList
	}
	return rsdoc.KindUnknown
}

// page looks for links to a Capability List, in the Link header and in the head of a page [6.3], and for feeds.
func (r *Reader) page(url string, a *answer, t *recorder) *finding {
	fd := &finding{url: url, final: a.URL, page: true}
	add := func(links []websub.Link, how string) {
		for _, target := range websub.Targets(links, rsdoc.RelResourceSync) {
			if len(fd.links) < pageLinks {
				fd.links = append(fd.links, Hop{Ref: newRef(target, rsdoc.KindUnknown), How: how})
			}
		}
	}
	header := websub.ParseLinks(a.Header.Values("Link"), a.base)
	add(header, howLinkHeader)
	body, err := t.rewind()
	if err != nil {
		return fd
	}
	start, _ := body.Peek(sniffed)
	fd.feed = feed.Sniff(a.Type, start)
	if len(fd.links) > 0 || fd.feed != feed.None {
		return fd
	}
	// Links found before a page breaks off are as good as any.
	links, _ := websub.HTMLLinks(body, a.base)
	add(links, howHTMLLink)
	all := slices.Concat(header, links)
	fd.feeds, fd.hubs = websub.FeedTargets(all), websub.Targets(all, "hub")
	return fd
}

// recorder keeps the beginning of a body while it is tried as a document, so that it can be read again as a page.
type recorder struct {
	r    io.Reader
	kept bytes.Buffer
}

func (t *recorder) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if room := pageBytes - t.kept.Len(); room > 0 {
		t.kept.Write(p[:min(n, room)])
	}
	return n, err
}

// rewind is the body from its start, inflated if need be, as far as a page matters.
func (t *recorder) rewind() (*bufio.Reader, error) {
	body, err := unpacked(io.LimitReader(io.MultiReader(&t.kept, t.r), pageBytes))
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(io.LimitReader(body, pageBytes), sniffed), nil
}

// maxPackings is how often a body may be packed: a .xml.gz that the server compresses again is two.
const maxPackings = 2

func unpacked(body io.Reader) (*bufio.Reader, error) {
	for range maxPackings {
		packed := bufio.NewReaderSize(body, sniffed)
		if magic, err := packed.Peek(2); err != nil || magic[0] != 0x1F || magic[1] != 0x8B {
			return packed, nil // the caller finds an empty or broken body
		}
		inflated, err := gzip.NewReader(packed)
		if err != nil {
			return nil, err
		}
		body = inflated
	}
	return bufio.NewReaderSize(body, sniffed), nil
}
