package source

import (
	"fmt"
	"net/http"
	"net/url"

	"resyncd/destination/fetch"
	"resyncd/destination/websub"
)

const (
	notificationType = "application/xml"
	formType         = "application/x-www-form-urlencoded"
	// hubHops is how often a hub may send a post on with 307 or 308.
	hubHops = 5
)

// hub is how the hub is spoken to.
type hub struct {
	url         string
	traditional bool
	policy      *fetch.Policy
	up          string // the Capability List
}

// newHub reads the options. The operator wrote the hub down, so it may be on a private address; a token goes to its origin
// only.
func newHub(o *Options) (*hub, error) {
	u, err := url.Parse(o.Hub)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	h := &hub{url: o.Hub, traditional: o.Publish == PublishTraditional, up: o.Base + "/" + capabilityList}
	h.policy = &fetch.Policy{Trusted: []string{u.Host}}
	if o.PublisherToken != "" {
		h.policy.Auth = &fetch.Auth{Bearer: o.PublisherToken}
		h.policy.AuthOrigin = u.Scheme + "://" + u.Host
	}
	return h, nil
}

// message is what tells the hub of a notification.
func (h *hub) message(c *channel, body []byte) fetch.Message {
	m := fetch.Message{Method: http.MethodPost, URL: h.url, Policy: h.policy, Repeat: hubHops, Body: body}
	if h.traditional {
		// Both names of the topic: hubs know one or the other (P-03).
		topic := c.s.at(c.name)
		form := url.Values{"hub.mode": {string(websub.ModePublish)}, "hub.url": {topic}, "hub.topic": {topic}}
		m.Header = http.Header{"Content-Type": {formType}}
		m.Body = []byte(form.Encode())
		return m
	}
	m.Header = http.Header{"Content-Type": {c.mediaType}, "Link": {c.links()}}
	return m
}
