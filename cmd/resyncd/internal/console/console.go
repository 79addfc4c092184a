// Package console knows how the daemon shows itself over HTTP: its status, metrics and health (contract.md 4). It refuses
// to know where that comes from, and changes nothing: all of it is read only.
package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options of New. What is nil is not served: its path answers 404.
type Options struct {
	// Status is what /api/status shows as JSON.
	Status func(ctx context.Context) (any, error)
	// Ready returns nil, or an error that says what is not ready, for /readyz. It is asked often, by anyone: no secret may
	// be in the error.
	Ready func(ctx context.Context) error
	// Metrics is what /metrics shows.
	Metrics *Metrics
	// Log takes what went wrong at answering; nil for nowhere.
	Log *slog.Logger
}

// readTime is how long Status, Ready and the gauges may take.
const readTime = 10 * time.Second

// scrapes is how many /metrics requests are answered at once; who comes beyond is told to come later.
const scrapes = 4

// New makes the handler of the console's listener. It answers GET and HEAD, and 404 to every path that is not its own.
func New(o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &console{Options: o, paths: map[string]http.HandlerFunc{"/healthz": alive}}
	if o.Status != nil {
		c.paths["/api/status"] = c.status
	}
	if o.Ready != nil {
		c.paths["/readyz"] = c.ready
	}
	if o.Metrics != nil {
		c.slots = make(chan struct{}, scrapes)
		c.paths["/metrics"] = c.metrics
	}
	return c
}

type console struct {
	Options
	paths map[string]http.HandlerFunc
	slots chan struct{} // of scrapes
}

// ServeHTTP answers one request. Paths are compared as they came, so none is answered by a redirect.
func (c *console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	answer, ok := c.paths[r.URL.Path]
	switch {
	case !ok:
		say(w, http.StatusNotFound, "nothing here; see /api/status, /metrics, /healthz and /readyz")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		say(w, http.StatusMethodNotAllowed, "this console is read only")
	default:
		ctx, cancel := context.WithTimeout(r.Context(), readTime)
		defer cancel()
		answer(w, r.WithContext(ctx))
	}
}

// say answers with one line of text.
func say(w http.ResponseWriter, code int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(line + "\n")) // an error means that the client has gone
}

// alive tells that the process answers, and nothing else: a supervisor that restarts it for more than that would make
// trouble worse.
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
		enc.SetEscapeHTML(false) // as `status --json` writes it; nosniff keeps it from being read as anything else
		err = enc.Encode(view)
	}
	if err != nil {
		if !errors.Is(r.Context().Err(), context.Canceled) { // else the client has gone
			c.Log.Warn("cannot show the status", "err", err)
		}
		say(w, http.StatusInternalServerError, "the status cannot be read now; the log says why")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body.Bytes())
}

// metrics gathers what was counted and, for this scrape, what the store says.
func (c *console) metrics(w http.ResponseWriter, r *http.Request) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	default:
		w.Header().Set("Retry-After", "1")
		say(w, http.StatusServiceUnavailable, "too many at once")
		return
	}
	promhttp.HandlerFor(prometheus.Gatherers{c.Metrics.registry, c.Metrics.gauges(r.Context())}, promhttp.HandlerOpts{
		ErrorLog:      problems{c.Log},
		ErrorHandling: promhttp.ContinueOnError, // one odd series must not hide all others
	}).ServeHTTP(w, r)
}

// problems logs what the metrics library has to complain of.
type problems struct{ log *slog.Logger }

// Println implements promhttp.Logger.
func (p problems) Println(v ...any) {
	for _, x := range v {
		if err, ok := x.(error); ok {
			p.log.Warn("cannot show all metrics", "err", err)
		}
	}
}
