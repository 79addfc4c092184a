package hub

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/hub/hubstate"
	"resyncd/destination/websub"
	"resyncd/store"
)

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
	look := &hubstate.Look{Topic: t.URL, ETag: t.ETag, LastModified: t.LastModified, Digest: t.Digest, Ping: t.Pinged}
	h.mu.Unlock()
	note, err := h.fetch(ctx, req, look)
	if err == nil {
		c := hubstate.Commit{Looks: []hubstate.Look{*look}}
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
		_ = h.commit(ctx, &hubstate.Commit{Looks: []hubstate.Look{*look}})
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
func (h *Hub) looked(l *hubstate.Look) {
	t := h.registry.topics[l.Topic]
	if t == nil {
		return
	}
	if t.Digest == l.Digest {
		t.ETag, t.LastModified = l.ETag, l.LastModified
	}
	if t.Pinged <= l.Ping {
		t.Pinged, t.tries = store.NoTime, 0
	}
}

// fetch asks for the content of a topic and completes look; nil if nothing is new.
func (h *Hub) fetch(ctx context.Context, req fetch.Request, look *hubstate.Look) (*hubstate.Notification, error) {
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
