package source

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"resyncd/destination/backoff"
	"resyncd/destination/fetch"
	"resyncd/destination/websub"
)

const (
	notificationType = "application/xml"
	hubHops          = 5                 // how often a hub may redirect a post
)

// How a hub that does not take a notification is tried again (P-03).
const (
	firstPause = time.Second
	maxPause   = time.Minute
	maxAsked   = time.Hour // the longest Retry-After that is believed
	// refusals is how many end one notification, which must not stop all others (P11); a hub that is being set up
	// refuses for a moment.
	refusals = 3
)

// errRefused: the same again is not likely to help.
var errRefused = errors.New("refused")

type hub struct {
	url         string
	traditional bool
	policy      *fetch.Policy
}

// newHub reads the options. The operator wrote the hub down, so it may be on a private address.
func newHub(o *Options) (*hub, error) {
	u, err := url.Parse(o.Hub)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	h := &hub{url: o.Hub, traditional: o.Publish == PublishTraditional}
	h.policy = &fetch.Policy{Trusted: []string{u.Host}}
	if o.PublisherToken != "" {
		h.policy.Auth = &fetch.Auth{Bearer: o.PublisherToken}
		h.policy.AuthOrigin = u.Scheme + "://" + u.Host
	}
	return h, nil
}

func (h *hub) message(c *channel, body []byte) fetch.Message {
	m := fetch.Message{Method: http.MethodPost, URL: h.url, Policy: h.policy, Repeat: hubHops, Body: body}
	if h.traditional {
		// Both names of the topic: hubs know one or the other (P-03).
		topic := c.s.at(c.name)
		form := url.Values{"hub.mode": {string(websub.ModePublish)}, "hub.url": {topic}, "hub.topic": {topic}}
		m.Header = http.Header{"Content-Type": {websub.FormType}}
		m.Body = []byte(form.Encode())
		return m
	}
	m.Header = http.Header{"Content-Type": {c.mediaType}, "Link": {c.links()}}
	return m
}

// post posts a message until the hub takes it, keeps refusing, or ctx ends. A repetition has the same bytes, because
// the first may have arrived.
func (c *channel) post(ctx context.Context, m fetch.Message) error {
	for refused := 0; ; {
		if backoff.Wait(ctx, c.pause) != nil || ctx.Err() != nil {
			return ctx.Err()
		}
		answer, err := c.send(ctx, m)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			err = refusal(answer)
		}
		if err == nil {
			if c.failures > 0 {
				c.s.options.Logger.Info("hub takes notifications again", "kind", c.kind, "failures", c.failures)
			}
			c.failures, c.pause = 0, 0
			return nil
		}
		c.failed(answer, err)
		if errors.Is(err, errRefused) {
			if refused++; refused == refusals {
				return err
			}
		}
	}
}

// failed chooses the next pause: doubling, with jitter, or what the hub asks for.
func (c *channel) failed(answer *fetch.Answer, err error) {
	c.failures++
	if c.failures == 1 {
		c.s.options.Logger.Warn("hub does not take notifications, trying again", "kind", c.kind, "err", err)
	}
	c.pause = backoff.Doubled(firstPause, c.failures, maxPause)
	c.pause += rand.N(c.pause / 5)
	if answer != nil {
		c.pause = max(c.pause, min(answer.RetryAfter, maxAsked))
	}
}

// refusal is nil where the hub has taken the message: any 2xx (P-03).
func refusal(a *fetch.Answer) error {
	const most = 200
	body := a.Body[:min(len(a.Body), most)]
	switch {
	case a.Status/100 == 2:
		return nil
	case a.Status/100 == 5, a.Status == http.StatusTooManyRequests, a.Status == http.StatusRequestTimeout,
		a.Status == http.StatusTooEarly:
		return fmt.Errorf("tell the hub: status %d: %q", a.Status, body)
	case a.Status == http.StatusUnauthorized, a.Status == http.StatusForbidden:
		return fmt.Errorf("tell the hub: status %d, it may want a publisher token or not know the topic: %w: %q",
			a.Status, errRefused, body)
	}
	return fmt.Errorf("tell the hub: status %d: %w: %q", a.Status, errRefused, body)
}
