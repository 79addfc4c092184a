package e2e_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"resyncd/destination/rsdoc"
)

// turnstile stands between hub and daemon, at an address that outlives the daemon. It remembers every change that a
// notification told and the daemon acknowledged.
type turnstile struct {
	*httptest.Server

	mu      sync.Mutex
	meddle  meddling
	to      string // where the daemon listens, "": nowhere
	acked   []ackedChange
	answers map[int]int // of the daemon to notifications, by status; 0: none came
}

// meddling sees a request before the daemon does and may change it; it returns true where it answered itself.
type meddling func(w http.ResponseWriter, r *http.Request, body []byte) (answered bool)

// ackedChange is one change that is the daemon's to carry out, whatever happens to it (P4).
type ackedChange struct {
	uri string
	at  rsdoc.Micros
}

// let has somebody see all that comes first.
func (g *turnstile) let(meddle meddling) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.meddle = meddle
}

// open leads to a daemon, or to nobody.
func (g *turnstile) open(to string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.to = to
}

// count is how many notifications were answered with a status since forget.
func (g *turnstile) count(status int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.answers[status]
}

// forget begins the counting of answers anew.
func (g *turnstile) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answers = nil
}

// acknowledged are the changes so far.
func (g *turnstile) acknowledged() []ackedChange {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.acked[:len(g.acked):len(g.acked)]
}

// ServeHTTP hands a request on, and tells the hub to come again where nobody takes it.
func (g *turnstile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	g.mu.Lock()
	meddle := g.meddle
	g.mu.Unlock()
	if meddle != nil && meddle(w, r, body) {
		return
	}
	status, answer := g.hand(r, body)
	if status == 0 {
		status = http.StatusServiceUnavailable
	}
	w.WriteHeader(status)
	_, _ = w.Write(answer) // the hub may be gone
}

// hand hands a request to the daemon, wherever that is, and remembers what it acknowledges; 0 where no answer came.
func (g *turnstile) hand(r *http.Request, body []byte) (status int, answer []byte) {
	g.mu.Lock()
	to := g.to
	g.mu.Unlock()
	status, answer = g.pass(r, to, body)
	if r.Method == http.MethodPost && to != "" {
		g.note(status, body)
	}
	return status, answer
}

// pass is 0 where no answer came.
func (g *turnstile) pass(r *http.Request, to string, body []byte) (status int, answer []byte) {
	if to == "" {
		return 0, nil
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+to+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return 0, nil
	}
	req.Header = r.Header.Clone()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil
	}
	return resp.StatusCode, answer
}

// note remembers an answer to a notification, and what it acknowledged.
func (g *turnstile) note(status int, body []byte) {
	var told []ackedChange
	if status/100 == 2 {
		told = changesIn(body)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.answers == nil {
		g.answers = map[int]int{}
	}
	g.answers[status]++
	g.acked = append(g.acked, told...)
}

// changesIn reads a Change Notification; of anything else nothing is owed.
func changesIn(body []byte) (told []ackedChange) {
	r, err := rsdoc.OpenBytes(body, rsdoc.Options{})
	if err != nil {
		return nil
	}
	head, err := r.Head()
	if err != nil || head.Kind != rsdoc.KindChangeNotification {
		return nil
	}
	for {
		e, err := r.Next()
		if err != nil {
			return told
		}
		told = append(told, ackedChange{e.Loc, e.Datetime})
	}
}
