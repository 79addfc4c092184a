package callback

import (
	"io"
	"net/http"
	"strconv"
	"time"
)

// How long a hub is asked to wait, by reason.
const (
	whileStarting = 5 * time.Second
	whileBusy     = 5 * time.Second
	whileFull     = time.Minute // the inbox drains at the engine's pace
)

// setSafeHeaders keeps browsers from interpreting an answer (S-33), some of which is a stranger's
// text.
func setSafeHeaders(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'")
}

// write sends an answer that depends only on its status: it reveals nothing about tokens (S-62).
func write(w http.ResponseWriter, status int) {
	h := w.Header()
	setSafeHeaders(h)
	if status == http.StatusOK {
		h.Set("Content-Length", "0")
		w.WriteHeader(status)
		return
	}
	text(w, status, http.StatusText(status)+"\n")
}

func text(w http.ResponseWriter, status int, body string) {
	h := w.Header()
	setSafeHeaders(h)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the peer may be gone
}

// refuse answers without reading the body.
func refuse(w http.ResponseWriter, r *http.Request, status int) {
	const most, patience = 1 << 20, 2 * time.Second
	drain(w, r, r.Body, most, patience)
	write(w, status)
}

// busy asks the hub to come again (F45).
func busy(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(wait.Seconds())))
	refuse(w, r, http.StatusServiceUnavailable)
}

// drain discards a body, up to a bound: many clients lose an answer if the connection is reset
// while they send. One that waits for 100 Continue sends nothing.
func drain(w http.ResponseWriter, r *http.Request, body io.Reader, most int64, patience time.Duration) {
	if body == nil || body == http.NoBody || r.ContentLength == 0 {
		return
	}
	control := http.NewResponseController(w)
	if r.Header.Get("Expect") != "" {
		w.Header().Set("Connection", "close")
		_ = control.SetReadDeadline(time.Now()) // net/http would wait for the body
		return
	}
	_ = control.SetReadDeadline(time.Now().Add(patience))
	//nolint:errorlint // only a bare EOF ends a body
	if n, err := io.CopyN(io.Discard, body, most+1); n > most || err != io.EOF {
		w.Header().Set("Connection", "close")
	}
}
