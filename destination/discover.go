package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/temoto/robotstxt"

	"resyncd/destination/feed"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
)

const wellKnown = "/.well-known/resourcesync" // [6.3.2]

const (
	howGiven       = "given"
	howWellKnown   = "well-known"
	howLinkHeader  = "link-header"
	howHTMLLink    = "html-link"
	howRobots      = "robots"
	howDescription = "description"
	howUp          = "up"
	howIndex       = "index"
)

// Discover finds what a Source offers, from any URL of it (7, 9, 13, 14.3, 16 and 18 of the specification's digest). A
// site or page stands for its whole Source, a Source Description for all its sets, a Capability List for its own, a
// list for the set of the Capability List that names it or else for itself, and a feed for its topic. only, if given,
// are the IDs of the sets to read.
//
// What is known from last time is requested conditionally. The Offer is never nil. A bad Capability List is
// SetOffer.Err. Where no set is usable the error is an *Error; other errors are those of ctx and the Memory.
func Discover(ctx context.Context, r *Reader, asked string, only ...string) (*Offer, error) {
	s, site, err := newSearch(r, asked)
	if err != nil {
		return s.offer, err
	}
	f := &finder{search: s, only: only, seen: map[string]*finding{}}
	f.reset()
	return f.offer, f.run(ctx, site)
}

// search is what both discoveries are: requests in one window, each told in the offer.
type search struct {
	r      *Reader
	offer  *Offer
	window *retryWindow
}

func newSearch(r *Reader, asked string) (search, *url.URL, error) {
	s := search{r, &Offer{Asked: asked}, r.newWindow()}
	u, err := url.Parse(asked)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return s, nil, s.failed(errors.New("not an absolute http or https URL"),
			"Give an absolute URL that begins with http:// or https://.")
	}
	return s, u, nil
}

func (s *search) failed(err error, hint string) *Error {
	return &Error{Asked: s.offer.Asked, Trail: s.offer.Trail, Err: err, Hint: hint}
}

func (s *search) step(url, how, result string, ok bool) {
	s.offer.Trail = append(s.offer.Trail, Step{URL: url, How: how, Result: result, OK: ok})
}

// shortly tells a failure in a step, which names the URL itself.
func shortly(err error) string {
	if f, ok := errors.AsType[*fetch.Error](err); ok && f.Err != nil {
		err = f.Err
	}
	return err.Error()
}

func (f *finder) reset() {
	f.offer.Sets, f.offer.Others, f.offer.Description, f.offer.Partial = nil, nil, "", false
	f.read, f.sets, f.route, f.gone = map[string]bool{}, map[string]int{}, nil, nil
}

type finder struct {
	search
	only  []string
	seen  map[string]*finding // every URL requested: none twice
	read  map[string]bool     // Source Descriptions taken up
	sets  map[string]int      // index in Offer.Sets; -1: in Offer.Others
	route []Hop
	gone  error // why a feed that is known cannot be read
	// Something may have been missed only because it did not answer: the route must not be remembered.
	incomplete bool
}

func (f *finder) run(ctx context.Context, site *url.URL) error {
	switch done, err := f.retrace(ctx); {
	case err != nil:
		return err
	case done:
		return f.noSetError()
	}
	if err := f.explore(ctx, site); err != nil {
		return err
	}
	if err := f.noSetError(); err != nil || f.incomplete {
		return err
	}
	return f.r.remember(ctx, &Document{URL: routeKey(f.offer.Asked), Route: f.route})
}

// explore tries the three ways of [6.3]. A URL that looks like a document is read first; if it does not answer nothing
// else is guessed, because that would mirror what nobody asked for.
func (f *finder) explore(ctx context.Context, u *url.URL) error {
	ways := [][2]string{{u.Scheme + "://" + u.Host + wellKnown, howWellKnown}, {f.offer.Asked, howGiven}}
	if document := u.RawQuery != "" || !strings.HasSuffix("/"+strings.TrimPrefix(u.Path, "/"), "/"); document {
		slices.Reverse(ways)
	}
	for _, way := range ways {
		fd, err := f.try(ctx, way[0], way[1])
		if err != nil || len(f.offer.Sets) > 0 {
			return err
		}
		if way[1] == howGiven && fd.feed != feed.None && !f.r.o.NoFeeds {
			return f.givenFeed(ctx)
		}
		if way == ways[0] && way[1] == howGiven && !fd.page {
			return nil
		}
	}
	return f.origins(ctx, u)
}

// origins tries robots.txt, and the well-known URI of the origin that the page was redirected to.
func (f *finder) origins(ctx context.Context, u *url.URL) error {
	origin := u.Scheme + "://" + u.Host
	if moved := f.movedTo(u); moved != "" {
		origin = moved
		if _, err := f.try(ctx, origin+wellKnown, howWellKnown); err != nil || len(f.offer.Sets) > 0 {
			return err
		}
	}
	return f.robots(ctx, origin+"/robots.txt")
}

func (f *finder) movedTo(u *url.URL) string {
	fd := f.seen[f.offer.Asked]
	if fd == nil {
		return ""
	}
	own, err := url.Parse(fd.final)
	if err != nil || own.Host == "" || own.Host == u.Host && own.Scheme == u.Scheme {
		return ""
	}
	return own.Scheme + "://" + own.Host
}

// look reads a document once. Its error is fatal; failures of the document are in the finding.
func (f *finder) look(ctx context.Context, url, how string) (*finding, error) {
	if fd, ok := f.seen[url]; ok {
		return fd, nil
	}
	if len(f.seen) >= f.r.limits.requests {
		return &finding{url: url, err: fmt.Errorf("not asked for: more than %d documents in one discovery",
			f.r.limits.requests)}, nil
	}
	fd, err := f.r.inspect(ctx, url, f.window)
	if err != nil {
		return nil, err
	}
	f.seen[url] = fd
	if fd.err != nil && passing(fd.err) {
		f.incomplete = true
	}
	f.step(url, how, fd.result(), fd.usable())
	return fd, nil
}

// try looks at a URL and follows what is there.
func (f *finder) try(ctx context.Context, url, how string) (*finding, error) {
	fd, err := f.look(ctx, url, how)
	if err == nil {
		err = f.follow(ctx, fd, how)
	}
	return fd, err
}

func (f *finder) follow(ctx context.Context, fd *finding, how string) error {
	switch {
	case fd.err != nil:
		return nil
	case fd.page:
		for _, l := range fd.links {
			next, err := f.look(ctx, l.URL, l.How)
			if err != nil {
				return err
			}
			if next.page {
				continue // one page must not lead to another
			}
			if err := f.follow(ctx, next, l.How); err != nil {
				return err
			}
		}
		return nil
	case fd.describes():
		_ = f.hop(fd, how)
		return f.description(ctx, fd.doc, 0)
	case fd.doc != nil:
		return f.capabilityList(ctx, fd, how)
	case fd.usable():
		return f.list(ctx, fd, how)
	}
	return nil
}

// A Capability List that a page or robots.txt names leads to the whole Source.
func (f *finder) capabilityList(ctx context.Context, fd *finding, how string) error {
	if how != howGiven && how != howUp {
		for _, up := range upLinks(&fd.head) {
			above, err := f.look(ctx, up, howUp)
			if err != nil {
				return err
			}
			if above.describes() && names(above.doc, fd.url, fd.final) {
				return f.follow(ctx, above, how)
			}
		}
	}
	if l, ok := fd.head.Link(rsdoc.RelUp); ok && l.Href != fd.url && f.offer.Description == "" {
		f.offer.Description = l.Href
	}
	_ = f.hop(fd, how)
	f.add(setOf(fd.doc, how))
	return nil
}

// hop records a document that the next discovery begins with.
func (f *finder) hop(fd *finding, how string) Hop {
	h := Hop{Ref: newRef(fd.url, fd.kind), Shape: fd.head.Shape, How: how}
	if fd.doc == nil {
		h.Links = fd.head.Links
	}
	if !slices.ContainsFunc(f.route, func(o Hop) bool { return o.URL == h.URL }) {
		f.route = append(f.route, h)
	}
	return h
}

// add takes up a set once. An unwanted set is only named.
func (f *finder) add(s SetOffer) {
	at, known := f.sets[s.ID]
	switch {
	case known && at >= 0 && f.offer.Sets[at].Err != nil && s.Err == nil:
		f.offer.Sets[at] = s
	case known:
	case !f.wanted(s.ID):
		f.sets[s.ID] = -1
		f.offer.Others = append(f.offer.Others, s.ID)
	default:
		f.sets[s.ID] = len(f.offer.Sets)
		f.offer.Sets = append(f.offer.Sets, s)
	}
}

func (f *finder) wanted(id string) bool { return len(f.only) == 0 || slices.Contains(f.only, id) }

func (f *finder) noSetError() error {
	if slices.ContainsFunc(f.offer.Sets, func(s SetOffer) bool { return s.Err == nil }) {
		return nil
	}
	e := f.failed(nil, "")
	for _, fd := range f.seen {
		e.causes = append(e.causes, fetch.CauseOf(fd.err))
	}
	for _, step := range f.offer.Trail {
		if fd := f.seen[step.URL]; fd != nil && fd.err != nil && (e.Err == nil || fetch.KindOf(e.Err) == fetch.Gone) {
			e.Err = fd.err
		}
	}
	given := f.seen[f.offer.Asked]
	switch {
	case f.gone != nil:
		e.Err, e.Hint = f.gone, "The feed that it was cannot be read for now."
	case len(f.offer.Sets) > 0:
		e.Hint = "No Capability List could be used: " + f.offer.Sets[0].Err.Error() + "."
	case len(f.offer.Others) > 0:
		e.Hint = "None of the sets asked for is among those that the Source offers; " +
			fetch.RedactURL(f.offer.Others[0]) + " is."
	case given != nil && len(given.feeds) > 0:
		e.Hint = "There is no ResourceSync, but its feed is " + fetch.RedactURL(given.feeds[0]) +
			": give that, or kind: feed."
	case given != nil && len(given.hubs) > 0:
		e.Hint = "There is no ResourceSync, but it is a WebSub topic: give kind: feed."
	default:
		e.Hint = "Give the address of the site, or of its Source Description, a Capability List, " +
			"a Resource List or a Change List."
	}
	return e
}

// givenFeed reads the feed at the Source's address again, as a topic.
func (f *finder) givenFeed(ctx context.Context) error {
	s, err := f.topic(ctx)
	if err != nil {
		return err
	}
	hop := Hop{Ref: newRef(f.offer.Asked, KindFeed), How: howGiven}
	hop.Links = []rsdoc.Link{{Rel: relSet, Href: s.ID}}
	f.route = append(f.route, hop)
	f.add(*s)
	return nil
}

// relSet is the relation by which a remembered feed names its topic.
const relSet = "self"

// resumeFeed takes up the feed of last time, unless something else has replaced it. While it does not answer nothing
// else is guessed, because that would mirror what nobody asked for.
func (f *finder) resumeFeed(ctx context.Context, h Hop) (ok bool, err error) {
	if f.r.o.NoFeeds {
		return false, nil
	}
	s, err := f.topic(ctx)
	e, nothing := errors.AsType[*Error](err)
	switch {
	case nothing:
		f.gone = e.Err
		f.add(SetOffer{ID: cmp.Or(hrefOf(h.Links, relSet), h.URL), Bare: true, Found: h.How, Err: e.Err})
		return true, nil
	case err != nil:
		return false, err
	case s.Topic.Answer.Format == feed.None && isXML(s.Topic.Answer.ContentType):
		return false, nil
	}
	f.add(*s) // a page in its place is for the reader of the set
	return true, nil
}

func (f *finder) topic(ctx context.Context) (*SetOffer, error) {
	o, err := DiscoverTopic(ctx, f.r, f.offer.Asked, f.r.o.Topic)
	f.offer.Trail = append(f.offer.Trail, o.Trail...)
	if err != nil {
		return nil, err
	}
	return &o.Sets[0], nil
}

// robots is the third way of [6.3]: Sitemap lines name Resource Lists, mixed with ordinary Sitemaps, which count only
// where there is nothing better.
func (f *finder) robots(ctx context.Context, at string) error {
	lines, err := f.sitemaps(ctx, at)
	if err != nil {
		return err
	}
	var plain []*finding
	for _, line := range lines {
		fd, err := f.look(ctx, line, howRobots)
		switch {
		case err != nil:
			return err
		case fd.page || fd.err != nil:
		case fd.kind == rsdoc.KindUnknown:
			plain = append(plain, fd)
		default:
			if err := f.follow(ctx, fd, howRobots); err != nil {
				return err
			}
		}
	}
	if len(f.offer.Sets) > 0 {
		return nil
	}
	for _, fd := range plain {
		if err := f.follow(ctx, fd, howRobots); err != nil {
			return err
		}
	}
	return nil
}

func (f *finder) sitemaps(ctx context.Context, at string) ([]string, error) {
	var body []byte
	var base *url.URL
	req := f.r.request(at, Meta{})
	req.Gzip = false
	err := f.r.take(ctx, f.window, req, func(a *answer) (err error) {
		base = a.base
		body, err = io.ReadAll(io.LimitReader(a.Body, pageBytes))
		return broken(err)
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		failed := &finding{url: at, err: err}
		f.seen[at], f.incomplete = failed, f.incomplete || passing(err)
		f.step(at, howRobots, failed.result(), false)
		return nil, nil
	}
	lines, err := sitemapLines(body, base)
	if err != nil {
		f.step(at, howRobots, "not a robots.txt", false)
		return nil, nil
	}
	f.step(at, howRobots, fmt.Sprintf("names %d Sitemaps", len(lines)), len(lines) > 0)
	return lines, nil
}

func sitemapLines(body []byte, base *url.URL) ([]string, error) {
	file, err := robotstxt.FromBytes(body)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, s := range file.Sitemaps {
		u, err := url.Parse(s)
		if err != nil || len(lines) >= robotsLines {
			continue
		}
		if !u.IsAbs() {
			s = base.ResolveReference(u).String()
		}
		lines = append(lines, s)
	}
	return lines, nil
}
