package destination

import (
	"context"
	"errors"

	"resyncd/destination/feed"
	"resyncd/destination/rsdoc"
)

// givenFeed takes up the feed that was given as the address of the Source. It is read once more, because what is known of
// it as a topic is not known to the look that found it.
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

// relSet is the relation under which a remembered feed names its topic.
const relSet = "self"

// resumeFeed takes up the feed that was given last time too, unless something else is in its place now. While it does not
// answer, be it that it is gone, nothing else is guessed: that would mirror what nobody asked for.
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
	case s.Topic.Answer.Format == feed.None:
		return false, nil
	}
	f.add(*s)
	return true, nil
}

// topicOfHop is the topic that a remembered feed was.
func topicOfHop(h Hop) string {
	for _, l := range h.Links {
		if l.Rel == relSet {
			return l.Href
		}
	}
	return h.URL
}

// topic is the set of the URL that was asked about as a topic.
func (f *finder) topic(ctx context.Context) (*SetOffer, error) {
	o, err := DiscoverTopic(ctx, f.r, f.offer.Asked, f.r.topic)
	f.offer.Trail = append(f.offer.Trail, o.Trail...)
	if err != nil {
		return nil, err
	}
	return &o.Sets[0], nil
}
