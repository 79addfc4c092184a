package destination

import (
	"context"
	"fmt"
	"io"
	"net/url"

	"github.com/temoto/robotstxt"

	"resyncd/destination/rsdoc"
)

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
