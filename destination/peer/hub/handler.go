package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/gate"
	"resyncd/destination/websub"
	"resyncd/store"
)

const (
	formMost = 64 << 10 // bytes of a subscriber's or publisher's form
	readTime = 30 * time.Second
	openTime = 5 * time.Second
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
		fail(w, errStopping)
	default:
		h.dispatch(w, r)
	}
}

// refuse answers with a reason and ends the connection where the request may not have been read.
func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Connection", "close")
	http.Error(w, why, status)
}

// refusal is why something is not done, fit for the answer.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

func refusing(status int, text string) error { return &refusal{status, text} }

// Why a request is not served, or not yet: 503 may work later.
var (
	errStopping     = refusing(503, "the hub is not running: try again")
	errBusy         = refusing(503, "the hub has too much to record: try again")
	errTooMany      = refusing(503, "too many requests wait to be verified: try again")
	errUnrecorded   = refusing(503, "the hub cannot write its state: try again")
	errCrowded      = refusing(503, "this hub has all the subscriptions that it can bear: try again later")
	errCrowdedTopic = refusing(503, "hub.topic has all the subscriptions that this hub bears for one: try again later")
	errCrowdedHost  = refusing(503, "hub.callback: its host has all the subscriptions "+
		"that this hub bears for one: try again later")

	errNotServed = refusing(403, "this hub does not serve the topic")
	errNoToken   = refusing(401,
		"this hub takes content from publishers with its token only: send Authorization: Bearer")
	errNotLocal = refusing(403, "this hub takes content from publishers on its own machine only; "+
		"it has no publisher token")
	errForwarded = refusing(403, "this hub has no publisher token, "+
		"so it takes no content that came through a proxy or a browser")
	errNotNamed = refusing(403, "the topic does not name this hub as its hub")
	errNotAsked = refusing(403, "the topic cannot be asked whether this is its hub")

	// Outcomes of a verification, for a subscriber of PubSubHubbub 0.3.
	errUnconfirmed = refusing(409, "the callback did not confirm")
	errUnreachable = refusing(409, "the callback could not be reached")
)

func isCrowded(err error) bool {
	return errors.Is(err, errCrowded) || errors.Is(err, errCrowdedTopic) || errors.Is(err, errCrowdedHost)
}

// fail answers that something is not done; why the state failed is not for strangers.
func fail(w http.ResponseWriter, err error) {
	why, known := errors.AsType[*refusal](err)
	wait := "2" // seconds
	if isCrowded(err) || errors.Is(err, store.ErrFull) {
		wait = "60"
	}
	if !known {
		err = errUnrecorded
	}
	switch {
	case !known, why.status == http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", wait)
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	case why.status == http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="hub"`)
	}
	refuse(w, why.status, err.Error())
}

// open reports whether the hub is running; while it reads its state, the request waits a little.
func (h *Hub) open(ctx context.Context) bool {
	select {
	case <-h.opened:
	case <-h.halt:
	case <-time.After(openTime):
	case <-ctx.Done():
	}
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
		if q.denied = errNotServed.Error(); q.sync {
			http.Error(w, q.denied, http.StatusConflict)
			return
		}
	}
	if err := h.enqueue(q); err != nil {
		fail(w, err)
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
			fail(w, err)
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

// tokenMost is how many bytes of a hub.verify_token are kept.
const tokenMost = 2048

type form struct {
	websub.HubForm
	// old: in the manner of PubSubHubbub 0.3 (H-16, H-21)
	old bool
}

// readForm reads a request in the forms of websub.md 2.1 and 2.5. The error is fit for the answer.
func readForm(body []byte) (form, error) {
	names, body := plainForm(body)
	parsed, err := websub.ParseHubForm(body)
	f := form{HubForm: parsed}
	if err != nil {
		return f, err
	}
	switch f.Mode {
	case websub.ModePublish:
		f.old = !names.Has("hub.topic")
		return f, nil
	case websub.ModeSubscribe:
		if lease := names["hub.lease_seconds"]; len(lease) > 0 && lease[0] != "" && !positive(lease[0]) {
			return f, fmt.Errorf("hub.lease_seconds %.20q is no positive number of seconds", lease[0])
		}
	}
	if len(f.VerifyToken) > tokenMost {
		return f, fmt.Errorf("hub.verify_token has %d bytes, at most %d are allowed", len(f.VerifyToken), tokenMost)
	}
	f.old = f.Verify != ""
	if !f.old && strings.Join(names["hub.verify"], "") != "" {
		return f, errors.New("hub.verify names neither sync nor async") // what PubSubHubbub 0.3 calls an error
	}
	return f, nil
}

// positive holds a lease to H-03: a decimal integer above 0.
func positive(lease string) bool {
	return strings.Trim(lease, "0123456789") == "" && strings.Trim(lease, "0") != ""
}

var repeated = regexp.MustCompile(`^(hub\.[^[]*)\[[0-9]*\]$`)

// plainForm corrects what old publishers send: hub.url[] or hub.url[0] for a repeated name, and a newline behind it
// all.
func plainForm(body []byte) (url.Values, []byte) {
	names := url.Values{}
	pairs := strings.Split(strings.TrimRight(string(body), "\r\n"), "&")
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		if decoded, err := url.QueryUnescape(name); err == nil {
			name = decoded
		}
		if found := repeated.FindStringSubmatch(name); found != nil {
			name = found[1]
			pairs[i] = name + "=" + value
		}
		if decoded, err := url.QueryUnescape(value); err == nil {
			value = decoded
		}
		names[name] = append(names[name], value)
	}
	return names, []byte(strings.Join(pairs, "&"))
}

// inQuery reports whether a request has all in its query and no body, as some publishers ping.
func inQuery(r *http.Request) bool {
	return r.ContentLength == 0 && r.URL.Query().Get("hub.mode") == string(websub.ModePublish)
}

// usable holds a URL to what hubs take: absolute, http or https, without fragment and credentials.
func usable(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Opaque == "" && u.Hostname() != "" && u.User == nil &&
		u.Fragment == ""
}

// served reports whether a topic may be subscribed to and published here.
func (o *Options) served(topic string) bool {
	if len(o.TopicPrefixes) == 0 {
		return true
	}
	if strings.Contains(topic, "/../") || strings.HasSuffix(topic, "/..") {
		return false // it may be elsewhere
	}
	for _, prefix := range o.TopicPrefixes {
		rest, ok := strings.CutPrefix(topic, prefix)
		if !ok {
			continue
		}
		u, err := url.Parse(prefix)
		if err != nil {
			continue
		}
		// https://example.org must not let https://example.org.evil.example or example.org@evil.example in.
		if u.Path != "" || u.RawQuery != "" || rest == "" || rest[0] == '/' || rest[0] == '?' {
			return true
		}
	}
	return false
}

// label names a callback in logs. Path and query are the secret of the subscriber (P10), so they are a hash.
func label(callback string) string {
	sum := sha256.Sum256([]byte(callback))
	origin := "?"
	if u, err := url.Parse(callback); err == nil {
		origin = u.Scheme + "://" + u.Host
	}
	return origin + "/…" + hex.EncodeToString(sum[:4])
}

// isEmpty reports whether a topic has no content (S-10, R-04).
func isEmpty(err error) bool {
	e, ok := errors.AsType[*fetch.Error](err)
	return ok && e.Status == http.StatusNoContent
}

// reason is why something on the network failed, without its URL.
func reason(err error) string {
	if e, ok := errors.AsType[*fetch.Error](err); ok {
		return e.Kind.String() + ": " + e.Err.Error()
	}
	return err.Error()
}
