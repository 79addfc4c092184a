// Package console knows how the daemon shows itself over HTTP (contract.md 4), and who may see and do what there. It
// refuses to know where that comes from and how it is done.
package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"resyncd/destination/gate"
)

// Options of New. All functions, Metrics and Data are needed by the paths that show them.
type Options struct {
	// Status is what /api/status shows as JSON.
	Status func(ctx context.Context) (any, error)
	// Ready says what is not ready, for /readyz. Anyone asks: no secret may be in the error.
	Ready func(ctx context.Context) error
	// Metrics is what /metrics shows.
	Metrics *Metrics
	// Data is what the pages show and do.
	Data Data
	// Version stands on each page.
	Version string
	// Hosts are the names by which the console may be called beyond addresses and localhost. Any other is refused: a
	// name that a stranger points here would make this console part of the stranger's site (DNS rebinding).
	Hosts []string
	// Auth is who may see and do anything but /healthz and /readyz; nil: everybody.
	Auth *Auth
	// Log may be nil.
	Log *slog.Logger
}

// Auth is what a request must prove: user and password, or the token as a Bearer or as a password with any user, since
// no browser asks for a token. An empty Auth lets nobody in.
type Auth struct{ User, Password, Token string }

const (
	headerTime  = 5 * time.Second
	requestTime = 10 * time.Second
	readTime    = 10 * time.Second // for what is shown
	answerTime  = requestTime + readTime + 10*time.Second
	idleTime    = 30 * time.Second
	stopTime    = 3 * time.Second
	headerBytes = 16 << 10
	connections = 256

	scrapes = 4 // answers to /metrics at once
	makers  = 8 // pages that are made at once

	listeners  = 64
	pace       = 500 * time.Millisecond // between two events
	heartbeat  = 15 * time.Second
	streamTime = 10 * time.Second // how long a listener may take for one event
)

// New makes the handler of the console's listener.
func New(o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &console{Options: o, making: make(chan struct{}, makers), hearing: make(chan struct{}, listeners)}
	_, _ = rand.Read(c.key[:])
	c.paths = map[string]http.HandlerFunc{
		"/": c.made(c.overview), "/api/status": quick(c.status), "/api/events": c.events,
		"/healthz": alive, "/readyz": quick(c.ready),
		"/metrics": quick(inTurn(make(chan struct{}, scrapes), "too many at once", c.scrape)),
	}
	for path, a := range assets() {
		c.paths[path] = a.answer
	}
	return c
}

type console struct {
	Options
	paths map[string]http.HandlerFunc

	key     [32]byte // of the tokens in forms
	making  chan struct{}
	hearing chan struct{}
	flashes flashes
}

// ServeHTTP answers one request. Nothing is answered by a redirect.
func (c *console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	guard(h)
	path := r.URL.Path
	health := path == "/healthz" || path == "/readyz"
	if !health && path != "/metrics" && !c.known(r.Host) {
		say(w, http.StatusMisdirectedRequest, "this console is not known by that name; name it in the configuration "+
			"(console.hosts), or call it by its address")
		return
	}
	if !health && !c.Auth.admit(r) {
		c.Auth.refuse(w)
		return
	}
	answer, allow := c.paths[path], "GET, HEAD"
	if answer == nil {
		answer, allow = c.ofSource(r)
	}
	switch {
	case answer == nil:
		c.lost(w, r)
	case !slices.Contains(strings.Split(allow, ", "), r.Method):
		h.Set("Allow", allow)
		say(w, http.StatusMethodNotAllowed, "only "+allow+" here")
	default:
		answer(w, r)
	}
}

// ofSource finds what answers below /source/NAME, nil if nothing does.
func (c *console) ofSource(r *http.Request) (answer http.HandlerFunc, allow string) {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/source/")
	escaped, part, _ := strings.Cut(rest, "/")
	name, err := url.PathUnescape(escaped)
	if !ok || err != nil || name == "" || strings.HasSuffix(rest, "/") {
		return nil, ""
	}
	of := func(f func(http.ResponseWriter, *http.Request, string)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { f(w, r, name) }
	}
	switch part {
	case "":
		return c.made(of(c.source)), "GET, HEAD"
	case "find":
		return c.made(of(c.find)), "GET, HEAD"
	case "resource":
		return c.made(of(c.resource)), "GET, HEAD"
	case "bytes":
		return of(c.bytes), "GET, HEAD"
	case "do":
		return of(c.do), "POST"
	}
	return nil, ""
}

func quick(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readTime)
		defer cancel()
		answer(w, r.WithContext(ctx))
	}
}

func say(w http.ResponseWriter, code int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(line + "\n"))
}

// alive tells only that the process answers: a restart for more than that would make trouble worse.
func alive(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") }

func (c *console) ready(w http.ResponseWriter, r *http.Request) {
	if err := c.Ready(r.Context()); err != nil {
		w.Header().Set("Retry-After", "1")
		say(w, http.StatusServiceUnavailable, "not ready: "+strings.Join(strings.Fields(err.Error()), " "))
		return
	}
	say(w, http.StatusOK, "ready")
}

func (c *console) status(w http.ResponseWriter, r *http.Request) {
	view, err := c.Status(r.Context())
	var body bytes.Buffer
	if err == nil {
		enc := json.NewEncoder(&body)
		enc.SetEscapeHTML(false) // as `status --json` does
		err = enc.Encode(view)
	}
	if err != nil {
		if !errors.Is(r.Context().Err(), context.Canceled) {
			c.Log.Warn("cannot show the status", "err", err)
		}
		say(w, http.StatusInternalServerError, "the status cannot be read now; the log says why")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body.Bytes())
}

func (c *console) scrape(w http.ResponseWriter, r *http.Request) {
	all := prometheus.Gatherers{c.Metrics.registry, c.Metrics.gauges(r.Context())}
	promhttp.HandlerFor(all, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(c.Log.Handler(), slog.LevelWarn),
		ErrorHandling: promhttp.ContinueOnError, // an odd series hides no others
	}).ServeHTTP(w, r)
}

// Serve answers on a listener, which it closes, until ctx ends; then requests have 3 s to end.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) error {
	var protocols http.Protocols
	protocols.SetHTTP1(true) // for deadlines and caps of connections
	server := &http.Server{
		Handler:                      handler,
		DisableGeneralOptionsHandler: true,
		Protocols:                    &protocols,
		ReadHeaderTimeout:            headerTime,
		ReadTimeout:                  requestTime,
		WriteTimeout:                 answerTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               headerBytes,
	}
	// Who is slow makes room for others, so that /healthz always answers.
	return gate.Serve(context.WithValue(ctx, endingKey{}, ctx), server,
		gate.Options{Listener: listener, MaxConns: connections, Grace: stopTime, Log: log})
}

// events tells a listener that pages have something new.
func (c *console) events(w http.ResponseWriter, r *http.Request) {
	select {
	case c.hearing <- struct{}{}:
		defer func() { <-c.hearing }()
	default:
		w.Header().Set("Retry-After", "30")
		say(w, http.StatusServiceUnavailable, "too many listeners; the page asks by itself every 30 s")
		return
	}
	gate.Received(r.Context()) // few, and they last
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for proxies
	if r.Method == http.MethodHead {
		return
	}
	ctx, cancel := orEnding(r.Context())
	defer cancel()
	out := newDrip(w, streamTime)
	changed := c.Data.Changed() // before the listener looks at the page, or it would miss what changes meanwhile
	if _, err := io.WriteString(out, "retry: 3000\nevent: hello\ndata: {}\n\n"); err != nil {
		return
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for n := int64(1); ; {
		text := ": still here\n\n"
		select {
		case <-ctx.Done():
			return
		case <-changed:
			changed = c.Data.Changed()
			text = fmt.Sprintf("id: %d\nevent: change\ndata: {}\n\n", n)
			n++
		case <-beat.C:
		}
		if _, err := io.WriteString(out, text); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pace): // what changes meanwhile is told as one
		}
	}
}

// drip is an answer whose pieces have a deadline each, instead of one for the whole.
type drip struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	time time.Duration
	gone bool // the client has gone
}

// newDrip lifts the deadline for reading the request: net/http would end its context with it.
func newDrip(w http.ResponseWriter, d time.Duration) *drip {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{})
	return &drip{w: w, rc: rc, time: d}
}

// Write implements io.Writer.
func (d *drip) Write(p []byte) (int, error) {
	if err := d.rc.SetWriteDeadline(time.Now().Add(d.time)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, fmt.Errorf("set a deadline: %w", err)
	}
	n, err := d.w.Write(p)
	if err != nil {
		d.gone = true
		return n, fmt.Errorf("write to the client: %w", err)
	}
	if err := d.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		d.gone = true
		return n, fmt.Errorf("write to the client: %w", err)
	}
	return n, nil
}

// endingKey is, in the context of each request, the channel that closes when the server is to end.
type endingKey struct{}

// orEnding ends ctx with the server.
func orEnding(ctx context.Context) (context.Context, context.CancelFunc) {
	ending, ok := ctx.Value(endingKey{}).(context.Context)
	if !ok {
		return context.WithCancel(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ending, cancel)
	return ctx, func() { stop(); cancel() }
}
