package hub

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/destination/websub"
)

// ping notes that topics have changed, durably, and answers before they are read (H-16).
func (h *Hub) ping(w http.ResponseWriter, r *http.Request, f *form) {
	for _, topic := range f.Topics {
		if !h.o.served(topic) {
			http.Error(w, fmt.Sprintf("%s: %.200q", notServed, topic), http.StatusForbidden)
			return
		}
	}
	for _, topic := range f.Topics {
		h.awaitNew(r.Context(), topic)
	}
	s := &submission{}
	now := h.micros()
	h.mu.Lock()
	for _, topic := range f.Topics {
		switch t := h.registry.topics[topic]; {
		case t == nil: // nobody is there to tell
		case t.reading || !t.pinged.Known():
			s.pings = append(s.pings, hubstate.Ping{Topic: topic, At: now})
		default: // it is noted, and nobody has begun to look
			h.readSooner(t)
		}
	}
	h.mu.Unlock()
	if len(s.pings) > 0 {
		if err := h.submit(r.Context(), s); err != nil {
			h.fail(w, err)
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
		h.refusePush(w, err)
		return
	}
	if coding := strings.ToLower(r.Header.Get("Content-Encoding")); coding != "" && coding != "identity" {
		refuse(w, http.StatusUnsupportedMediaType,
			"Content-Encoding: content is relayed as it is, so it must come uncoded")
		return
	}
	if !h.places.bodies.enter(r.Context(), h.halt) {
		h.fail(w, errStopping)
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
		if err := h.submit(r.Context(), &submission{note: note}); err != nil {
			h.fail(w, err)
			return
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

// refusePush answers a publisher that may not push.
func (h *Hub) refusePush(w http.ResponseWriter, err error) {
	status := http.StatusForbidden
	switch {
	case errors.Is(err, errStopping):
		h.fail(w, err)
		return
	case errors.Is(err, errNoToken):
		w.Header().Set("WWW-Authenticate", `Bearer realm="hub"`)
		status = http.StatusUnauthorized
	}
	refuse(w, status, err.Error())
}
