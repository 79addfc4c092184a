package destination

import (
	"context"
	"errors"

	"resyncd/destination/feed"
	"resyncd/destination/rsdoc"
)

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
	if f.r.noFeeds {
		return false, nil
	}
	s, err := f.topic(ctx)
	e, nothing := errors.AsType[*Error](err)
	switch {
	case nothing:
		f.failed = e.Err
		f.add(SetOffer{ID: topicOfHop(h), Bare: true, Found: h.How, Err: e.Err})
		return true, nil
	case err != nil:
		return false, err
	case s.Topic.Answer.Format == feed.None && isXML(s.Topic.Answer.ContentType):
		return false, nil
	}
	f.add(*s) // a page in its place is for the reader of the set
	return true, nil
}

func topicOfHop(h Hop) string {
	for _, l := range h.Links {
		if l.Rel == relSet {
			return l.Href
		}
	}
	return h.URL
}

func (f *finder) topic(ctx context.Context) (*SetOffer, error) {
	o, err := DiscoverTopic(ctx, f.r, f.offer.Asked, f.r.topic)
	f.offer.Trail = append(f.offer.Trail, o.Trail...)
	if err != nil {
		return nil, err
	}
	return &o.Sets[0], nil
}
