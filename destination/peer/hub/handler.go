package hub

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"time"

	"resyncd/destination/gate"
	"resyncd/destination/websub"
	"resyncd/store"
)

const (
	formMost    = 64 << 10 // bytes of a subscriber's or publisher's form
	readTime    = 30 * time.Second
	openTime    = 5 * time.Second
	comeBack    = "2" // seconds
	comeBackLot = "60"
)

// connections is how many clients there may be; those that ask nothing make room (P8).
const connections = 4096

// Serve answers requests on a listener until ctx ends, then finishes what is running for a few seconds. It closes the
// listener and returns nil after such an end.
func (h *Hub) Serve(ctx context.Context, listener net.Listener) error {
	return gate.Serve(ctx, &http.Server{
		Handler:           h.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout:      readTime + 3*verifyTimeout, // a synchronous verification takes its time
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}, gate.Options{Listener: listener, MaxConns: connections, Grace: stopGrace, Log: h.o.Log})
}

// Handler answers the hub's one URL: subscribe, unsubscribe, light ping and content (H-01 to H-03, H-16, H-17).
func (h *Hub) Handler() http.Handler { return http.HandlerFunc(h.serve) }

func (h *Hub) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case !h.listens(r.URL.EscapedPath()):
		refuse(w, http.StatusNotFound, "the hub is not at this path")
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed,
			"a hub answers POST only: hub.mode=subscribe, unsubscribe or publish, or content to relay")
	case !h.open(r.Context()):
		h.fail(w, errStopping)
	default:
		h.dispatch(w, r)
	}
}

// refuse answers with a reason and ends the connection where the request may not have been read.
func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Connection", "close")
	http.Error(w, why, status)
}

// fail answers for what may work later.
func (h *Hub) fail(w http.ResponseWriter, err error) {
	wait := comeBack
	if isCrowded(err) || errors.Is(err, store.ErrFull) {
		wait = comeBackLot
	}
	w.Header().Set("Retry-After", wait)
	text := errUnrecorded.Error() // errors of the state are not for strangers
	for _, known := range []error{errStopping, errBusy, errTooMany, errCrowded, errCrowdedTopic, errCrowdedHost} {
		if errors.Is(err, known) {
			text = known.Error()
		}
	}
	http.Error(w, text, http.StatusServiceUnavailable)
}

// open reports whether the hub is running; while it reads its state, the request waits a little.
func (h *Hub) open(ctx context.Context) bool {
	if h.isRunning() {
		return true
	}
	late := time.NewTimer(openTime)
	defer late.Stop()
	select {
	case <-h.opened:
	case <-h.halt:
	case <-late.C:
	case <-ctx.Done():
	}
	return h.isRunning()
}

func (h *Hub) isRunning() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.phase == running
}

func (h *Hub) dispatch(w http.ResponseWriter, r *http.Request) {
	// Writers that have no deadline, as in tests, need none.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTime))
	if inQuery(r) {
		gate.Received(r.Context())
		h.form(w, r, []byte(r.URL.RawQuery))
		return
	}
	// A parameter that is broken does not make it another type.
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if media == websub.FormType && (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter)) {
		if body, ok := receive(w, r, formMost); ok {
			h.form(w, r, body)
		}
		return
	}
	selves := websub.Targets(websub.ParseLinks(r.Header.Values("Link"), nil), "self")
	if len(selves) == 0 {
		refuse(w, http.StatusUnsupportedMediaType, "Content-Type: want "+websub.FormType+
			`; content to relay comes with a Link header that names its topic, rel="self"`)
		return
	}
	h.push(w, r, selves)
}

// form answers subscribers, and publishers that only ping.
func (h *Hub) form(w http.ResponseWriter, r *http.Request, body []byte) {
	f, err := readForm(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if f.Mode == websub.ModePublish {
		h.ping(w, r, &f)
		return
	}
	q := &request{form: f, client: r.RemoteAddr, sync: f.Verify == "sync"}
	if f.Mode == websub.ModeSubscribe && !h.o.served(f.Topic) {
		if q.denied = notServed; q.sync {
			http.Error(w, notServed, http.StatusConflict)
			return
		}
	}
	if err := h.enqueue(q); err != nil {
		h.fail(w, err)
		return
	}
	if !q.sync {
		w.WriteHeader(http.StatusAccepted) // whatever the verification will say (H-02)
		return
	}
	h.await(r.Context(), w, q)
}

// await answers a subscriber of PubSubHubbub 0.3 that wants to know the outcome (H-21).
func (h *Hub) await(ctx context.Context, w http.ResponseWriter, q *request) {
	select {
	case err := <-q.done:
		switch {
		case err == nil:
			w.WriteHeader(http.StatusNoContent)
		case errors.Is(err, errStopping), errors.Is(err, errUnrecorded):
			h.fail(w, err)
		default:
			http.Error(w, err.Error(), http.StatusConflict)
		}
	case <-ctx.Done():
	}
}

// receive reads a request's body; if it cannot, it has answered.
func receive(w http.ResponseWriter, r *http.Request, most int64) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err == nil {
		gate.Received(r.Context())
		// It would also end the watch over the connection while we work.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		return body, true
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		refuse(w, http.StatusRequestEntityTooLarge, "the request is too large")
	} else {
		refuse(w, http.StatusBadRequest, "the request did not arrive whole")
	}
	return nil, false
}
