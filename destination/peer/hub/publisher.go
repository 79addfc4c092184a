package hub

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/hub/hubstate"
	"resyncd/destination/websub"
	"resyncd/store"
)

// mayPush decides whether a request may bring content for a topic: the publisher must be known, or with
// Options.TrustTopics the topic must name this hub (H-17).
func (h *Hub) mayPush(r *http.Request, topic string) error {
	if !h.o.served(topic) {
		return errNotServed
	}
	err := h.o.isPublisher(r)
	if err == nil || !h.o.TrustTopics {
		return err
	}
	asked := h.isHubOf(r.Context(), topic)
	if asked != nil && errors.Is(err, errNoToken) && !errors.Is(asked, errStopping) {
		return fmt.Errorf("%w; else its topic must name this hub, but %w", err, asked)
	}
	return asked
}

func (o *Options) isPublisher(r *http.Request) error {
	if o.PublisherToken != "" {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		want, got := sha256.Sum256([]byte(o.PublisherToken)), sha256.Sum256([]byte(strings.TrimSpace(given)))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			return errNoToken
		}
		return nil
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() {
		return errNotLocal
	}
	// Behind a proxy on this machine everybody comes from loopback, and so does any page in a local browser.
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via", "Origin"} {
		if r.Header.Get(name) != "" {
			return errForwarded
		}
	}
	return nil
}

const (
	claimGood = 10 * time.Minute // that a topic's word is remembered
	claimBad  = 10 * time.Second // that its silence is
	claimMost = 4096             // topics remembered
)

// claims remember which topics name this hub. Hub.mu guards them.
type claims map[string]claim

type claim struct {
	err   error // nil: it names this hub
	until time.Time
}

func (c claims) get(topic string, now time.Time) (claim, bool) {
	found := c[topic]
	return found, now.Before(found.until)
}

func (c claims) put(topic string, found claim) {
	if len(c) >= claimMost {
		clear(c)
	}
	c[topic] = found
}

// isHubOf asks a topic whether this is its hub; nil if it is (R-04: "Hub verifies topic URI").
func (h *Hub) isHubOf(ctx context.Context, topic string) error {
	h.mu.Lock()
	known, ok := h.claims.get(topic, time.Now())
	h.mu.Unlock()
	if ok {
		return known.err
	}
	if !h.places.reading.enter(ctx, h.halt) {
		return errStopping
	}
	defer h.places.reading.leave()
	timed, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	found := claim{until: time.Now().Add(claimGood)}
	hubs, err := h.hubsOf(timed, topic)
	switch {
	case ctx.Err() != nil:
		return errStopping // the publisher does not wait for the answer
	case err != nil:
		// Why is not for strangers.
		h.o.Log.Info("a topic cannot be asked for its hub", "topic", topic, "why", reason(err))
		found.err = errNotAsked
	case !h.isNamed(hubs):
		found.err = errNotNamed
	}
	if found.err != nil {
		found.until = time.Now().Add(claimBad)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.claims.put(topic, found)
	return found.err
}

// hubsOf reads what hubs a topic names, one without content (204) as well (S-10).
func (h *Hub) hubsOf(ctx context.Context, topic string) ([]string, error) {
	resp, err := h.topics.Get(ctx, fetch.Request{URL: topic, MaxBytes: h.o.maxBody})
	if isEmpty(err) {
		a, err := h.topics.Send(ctx, fetch.Message{Method: http.MethodGet, URL: topic, Timeout: verifyTimeout})
		if err != nil {
			return nil, err
		}
		base, err := url.Parse(a.URL)
		if err != nil {
			return nil, err
		}
		return websub.Targets(websub.ParseLinks(a.Header.Values("Link"), base), "hub"), nil
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	final, err := url.Parse(resp.URL)
	if err != nil {
		return nil, err
	}
	const most = 512 << 10 // bytes of a topic that are searched for its hubs (P8)
	links, err := websub.DiscoverTopic(resp.Header.Values("Link"), resp.Type, io.LimitReader(resp.Body, most), final)
	return links.Hubs, err
}

// isNamed reports whether this hub is one of those, with or without a slash at the end.
func (h *Hub) isNamed(hubs []string) bool {
	return slices.ContainsFunc(hubs, func(hub string) bool {
		return strings.TrimSuffix(hub, "/") == strings.TrimSuffix(h.o.Base, "/")
	})
}

// ping notes that topics have changed, durably, and answers before they are read (H-16).
func (h *Hub) ping(w http.ResponseWriter, r *http.Request, f *form) {
	for _, topic := range f.Topics {
		if !h.o.served(topic) {
			http.Error(w, fmt.Sprintf("%s: %.200q", errNotServed.Error(), topic), http.StatusForbidden)
			return
		}
	}
	for _, topic := range f.Topics {
		h.awaitNew(r.Context(), topic)
	}
	var c hubstate.Commit
	now := h.micros()
	h.mu.Lock()
	for _, topic := range f.Topics {
		switch t := h.registry.topics[topic]; {
		case t == nil: // nobody is there to tell
		case t.reading || !t.Pinged.Known():
			c.Pings = append(c.Pings, hubstate.Topic{URL: topic, Pinged: now})
		default: // it is noted, and nobody has begun to look
			h.readSooner(t)
		}
	}
	h.mu.Unlock()
	if len(c.Pings) > 0 {
		if err := h.commit(r.Context(), &c); err != nil {
			fail(w, err)
			return
		}
	}
	status := http.StatusAccepted
	if f.old {
		status = http.StatusNoContent // what a publisher of PubSubHubbub 0.3 expects, and nothing else
	}
	w.WriteHeader(status)
}

// push takes content for a topic and answers once it is sure to go out.
func (h *Hub) push(w http.ResponseWriter, r *http.Request, selves []string) {
	topic := selves[0]
	u, err := url.Parse(topic)
	switch {
	case len(selves) > 1:
		refuse(w, http.StatusBadRequest, `Link: more than one rel="self"`)
		return
	case err != nil || !usable(u):
		refuse(w, http.StatusBadRequest, `Link: rel="self" is no absolute http or https URL without fragment and user`)
		return
	}
	if err := h.mayPush(r, topic); err != nil {
		fail(w, err)
		return
	}
	if coding := strings.ToLower(r.Header.Get("Content-Encoding")); coding != "" && coding != "identity" {
		refuse(w, http.StatusUnsupportedMediaType,
			"Content-Encoding: content is relayed as it is, so it must come uncoded")
		return
	}
	if !h.places.bodies.enter(r.Context(), h.halt) {
		fail(w, errStopping)
		return
	}
	defer h.places.bodies.leave()
	body, ok := receive(w, r, h.o.maxBody)
	if !ok {
		return
	}
	h.awaitNew(r.Context(), topic)
	h.mu.Lock()
	known := h.registry.topics[topic] != nil
	h.mu.Unlock()
	if known { // else nobody is there to tell
		links := websub.ParseLinks(r.Header.Values("Link"), nil)
		note := h.notification(topic, r.Header.Get("Content-Type"), links, body, sha256.Sum256(body))
		if err := h.commit(r.Context(), &hubstate.Commit{Notifications: []*hubstate.Notification{note}}); err != nil {
			fail(w, err)
			return
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

// readPause is the least time between two readings of one topic, however often it is pinged.
const readPause = 200 * time.Millisecond

// readLater has a pinged topic read (H-16), once more if that is under way. h.mu is held.
func (h *Hub) readLater(t *topic) {
	if !t.Pinged.Known() || t.reading || h.phase != running {
		return
	}
	if wait := time.Until(t.nextRead); wait > 0 {
		h.after(&t.timer, wait, func() { h.readLater(t) })
		return
	}
	t.reading = true
	h.start(func(ctx context.Context) { h.read(ctx, t) })
}

// readSooner shortens the wait of an unreadable topic: its publisher is there again. h.mu is held.
func (h *Hub) readSooner(t *topic) {
	if soon := time.Now().Add(h.o.RetryBase); t.tries > 1 && t.nextRead.After(soon) {
		t.tries, t.nextRead = 1, soon
		h.readLater(t)
	}
}

// read reads a topic and publishes what is new in it.
func (h *Hub) read(ctx context.Context, t *topic) {
	if !h.places.reading.enter(ctx, h.halt) {
		return
	}
	defer h.places.reading.leave()
	h.mu.Lock()
	req := fetch.Request{URL: t.URL, ETag: t.ETag, LastModified: t.LastModified, NoCache: true, MaxBytes: h.o.maxBody}
	look := t.Topic
	h.mu.Unlock()
	note, err := h.fetch(ctx, req, &look)
	if err == nil {
		c := hubstate.Commit{Looks: []hubstate.Topic{look}}
		if note != nil {
			c.Notifications = append(c.Notifications, note)
		}
		err = h.commit(ctx, &c)
	}
	if ctx.Err() != nil {
		return // looked at after the restart
	}
	h.mu.Lock()
	t.reading = false
	t.nextRead = time.Now().Add(readPause)
	givenUp := err != nil && !h.readAgain(t, err)
	if err == nil && note == nil {
		h.o.Log.Debug("a topic has not changed", "topic", t.URL)
	}
	h.readLater(t)
	h.mu.Unlock()
	if givenUp { // the ping is answered all the same
		_ = h.commit(ctx, &hubstate.Commit{Looks: []hubstate.Topic{look}})
	}
}

// readAgain plans another look at a topic that could not be read; false if it is given up. h.mu is held.
func (h *Hub) readAgain(t *topic, err error) bool {
	t.tries++
	var asked time.Duration
	if e, ok := errors.AsType[*fetch.Error](err); ok {
		asked = e.RetryAfter
	}
	wait, again := backoff(h.o.RetryBase, t.tries, asked)
	if kind := fetch.KindOf(err); !again || kind == fetch.Refused || kind == fetch.TooLarge {
		h.o.Log.Warn("a topic cannot be read, the ping is dropped", "topic", t.URL, "why", reason(err))
		t.tries = 0
		return false
	}
	t.nextRead = time.Now().Add(wait)
	h.o.Log.Info("a topic cannot be read", "topic", t.URL, "why", reason(err), "again_in", wait.Round(time.Millisecond))
	return true
}

// looked brings a topic up to what was recorded of a look. h.mu is held.
func (h *Hub) looked(l *hubstate.Topic) {
	t := h.registry.topics[l.URL]
	if t == nil {
		return
	}
	if t.Digest == l.Digest {
		t.ETag, t.LastModified = l.ETag, l.LastModified
	}
	if t.Pinged <= l.Pinged {
		t.Pinged, t.tries = store.NoTime, 0
	}
}

// fetch asks for the content of a topic and completes look; nil if nothing is new.
func (h *Hub) fetch(ctx context.Context, req fetch.Request, look *hubstate.Topic) (*hubstate.Notification, error) {
	resp, err := h.topics.Get(ctx, req)
	if isEmpty(err) { // there is nothing to relay: what it has to say comes as content, or not at all
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.NotModified {
		return nil, nil
	}
	body, err := io.ReadAll(resp.Body) // Request.MaxBytes bounds it
	if err != nil {
		return nil, fmt.Errorf("read the topic: %w", err)
	}
	digest := sha256.Sum256(body)
	same := digest == look.Digest
	look.ETag, look.LastModified, look.Digest = resp.ETag, resp.LastModified, digest
	if same {
		return nil, nil
	}
	base, _ := url.Parse(resp.URL)
	return h.notification(req.URL, resp.Type, websub.ParseLinks(resp.Header.Values("Link"), base), body, digest), nil
}

// notification is content as it goes to subscribers: with this hub, the topic and the other links of the publisher
// (H-11, R-05).
func (h *Hub) notification(
	topic, contentType string, links []websub.Link, body []byte, digest [32]byte,
) *hubstate.Notification {
	var more []websub.Link
	for _, l := range links {
		ours := func(rel string) bool { return rel == "hub" || rel == "self" }
		if l.Rels = slices.DeleteFunc(slices.Clone(l.Rels), ours); len(l.Rels) > 0 {
			more = append(more, l)
		}
	}
	return &hubstate.Notification{Topic: topic, Received: h.micros(), Type: contentType,
		Link: websub.LinkHeader(h.o.Base, topic, more...), Digest: digest, Body: body}
}
