package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// evil is one request to be answered badly.
type evil struct {
	m      *mischief
	name   string
	w      http.ResponseWriter
	r      *http.Request
	honest *reply
	relief <-chan struct{}
}

// misdeed is one way for a Source to answer badly.
type misdeed struct {
	name string
	sort sort
	// do is false where it does not apply; it has written nothing then.
	do func(*evil) bool
}

// sort says what a misdeed is good for.
type sort int

const (
	passing  sort = iota // asking again soon helps
	hanging              // the same, but it takes its time; a document that hangs holds up its whole pull
	lament               // the same, but the host is asked less from then on
	lasting              // the ledger waits for long, or for the operator
	document             // of documents only
	steady               // of documents only, and while bodies are sound: who lies in both leaves nothing to tell the truth by
)

// misdeeds are all that are known: those of any answer, and those of documents.
func misdeeds() []misdeed {
	status := func(code int, header ...string) func(*evil) bool {
		return func(e *evil) bool { return e.answer(code, "a fault on purpose", header...) }
	}
	return append([]misdeed{
		{"500", passing, status(500)},
		{"502", passing, status(502)},
		{"503", lament, status(503)},
		{"503 for a second", lament, status(503, "Retry-After", "1")},
		{"429", lament, status(429)},
		{"429 for a second", lament, status(429, "Retry-After", "1")},
		{"429 for less than none", lament, status(429, "Retry-After", "-1")},
		{"429 for rubbish", lament, status(429, "Retry-After", "soon")},
		{"429 until a date", lament, func(e *evil) bool {
			return e.answer(429, "", "Retry-After", time.Now().Add(2*time.Second).UTC().Format(http.TimeFormat))
		}},
		{"401", lasting, status(401, "WWW-Authenticate", `Basic realm="x"`)},
		{"403", lasting, status(403)},
		{"404", lasting, status(404)},
		{"410", lasting, status(410)},
		{"304 unasked", passing, status(304)},
		{"204", passing, status(204)},
		{"empty", passing, status(200)},
		{"cut, length known", passing, func(e *evil) bool { return e.cut(strconv.Itoa(len(e.honest.body))) }},
		{"cut, chunked", passing, func(e *evil) bool { return e.cut("") }},
		{"cut, until closed", passing, (*evil).cutUntilClosed},
		{"cut, said to be whole", passing, func(e *evil) bool { return e.change(e.honest.body[:len(e.honest.body)/2]) }},
		{"one byte wrong", passing, (*evil).wrong},
		{"page", passing, func(e *evil) bool {
			return e.answer(200, "<!DOCTYPE html>\n<html><head><title>Sorry</title></head><body><p>Back soon.</p></body></html>\n", "Content-Type", "text/html")
		}},
		{"packed", passing, status(200, "Content-Encoding", "gzip")},
		{"endless", hanging, (*evil).endless},
		{"dripping", hanging, (*evil).drip},
		{"stalled", hanging, (*evil).stall},
		{"silent", hanging, (*evil).silence},
		{"stale", passing, (*evil).stale},
		{"led in a circle", lasting, func(e *evil) bool { return e.lead("?again") }},
		{"led to another host", lasting, func(e *evil) bool { return e.lead(e.m.elsewhere.URL + e.r.URL.Path) }},
		{"led to a file", lasting, func(e *evil) bool { return e.lead("file:///etc/passwd") }},
		{"led to something else", lasting, func(e *evil) bool { return e.lead("/robots.txt") }},
	}, wrongDocuments()...)
}

// names are those of the misdeeds of these sorts.
func names(of ...sort) (all []string) {
	for _, d := range misdeeds() {
		for _, s := range of {
			if d.sort == s {
				all = append(all, d.name)
			}
		}
	}
	return all
}

// did counts it: before what is done takes its time, else after it.
func (e *evil) did() {
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	e.m.did[e.name]++
}

func (e *evil) answer(status int, body string, header ...string) bool {
	for i := 0; i+1 < len(header); i += 2 {
		e.w.Header().Set(header[i], header[i+1])
	}
	e.w.WriteHeader(status)
	if status != http.StatusNoContent && status != http.StatusNotModified {
		_, _ = io.WriteString(e.w, body)
	}
	return true
}

// head sends an honest head with a length, "" for none.
func (e *evil) head(length string) {
	for name, values := range e.honest.header {
		e.w.Header()[name] = values
	}
	e.w.Header().Del("Content-Length")
	if length != "" {
		e.w.Header().Set("Content-Length", length)
	}
	e.w.WriteHeader(e.honest.status)
}

// flush sends what was written, and reports whether there is still somebody to send to.
func (e *evil) flush() bool { return http.NewResponseController(e.w).Flush() == nil }

// pause waits, and reports whether the mischief goes on.
func (e *evil) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-e.relief:
	case <-e.r.Context().Done():
	}
	return false
}

func (e *evil) send(a *reply) bool {
	e.honest = a
	e.head(strconv.Itoa(len(a.body)))
	_, _ = e.w.Write(a.body)
	return true
}

// change sends another body with an honest head.
func (e *evil) change(body []byte) bool {
	if e.honest.status != http.StatusOK {
		return false
	}
	return e.send(&reply{status: e.honest.status, header: e.honest.header, body: body})
}

// half sends half of an answer and what holds it up until then.
func (e *evil) half(length string) bool {
	if e.honest.status != http.StatusOK {
		return false
	}
	e.head(length)
	e.flush() // a body without length is sent in chunks then
	_, _ = e.w.Write(e.honest.body[:len(e.honest.body)/2])
	return true
}

func (e *evil) cut(length string) bool {
	if !e.half(length) {
		return false
	}
	e.flush()
	e.did()
	panic(http.ErrAbortHandler)
}

// cutUntilClosed sends half a body without any length: it ends with its connection, and looks whole.
func (e *evil) cutUntilClosed() bool {
	if e.honest.status != http.StatusOK {
		return false
	}
	conn, _, err := http.NewResponseController(e.w).Hijack()
	if err != nil {
		return false
	}
	defer conn.Close()
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: %s\r\n\r\n%s",
		e.honest.header.Get("Content-Type"), e.honest.body[:len(e.honest.body)/2])
	return true
}

func (e *evil) wrong() bool {
	if isDocument(e.r.URL.Path) || e.honest.status != http.StatusOK {
		return false // it may be any lie; see wrongDocuments
	}
	body := append([]byte(nil), e.honest.body...)
	body[len(body)/2] ^= 1
	return e.change(body)
}

// endless sends a body that is true at first and never ends.
func (e *evil) endless() bool {
	if e.honest.status != http.StatusOK {
		return false
	}
	e.did()
	e.head("")
	_, err := e.w.Write(e.honest.body)
	for more := []byte(strings.Repeat(" ", 32<<10)); err == nil && e.pause(2*time.Millisecond); {
		_, err = e.w.Write(more)
	}
	panic(http.ErrAbortHandler)
}

// drip sends byte by byte, never idle and too slowly.
func (e *evil) drip() bool {
	if e.honest.status != http.StatusOK {
		return false
	}
	e.did()
	e.head(strconv.Itoa(len(e.honest.body)))
	for i := range e.honest.body {
		_, err := e.w.Write(e.honest.body[i : i+1])
		if err != nil || !e.flush() || !e.pause(50*time.Millisecond) {
			break
		}
	}
	panic(http.ErrAbortHandler)
}

func (e *evil) stall() bool {
	if !e.half(strconv.Itoa(len(e.honest.body))) {
		return false
	}
	e.did()
	e.flush()
	e.pause(time.Hour)
	panic(http.ErrAbortHandler)
}

func (e *evil) silence() bool {
	e.did()
	e.pause(time.Hour)
	panic(http.ErrAbortHandler)
}

// stale answers as it did once.
func (e *evil) stale() bool {
	e.m.mu.Lock()
	old := e.m.past[e.r.URL.EscapedPath()]
	e.m.mu.Unlock()
	if old == nil || e.honest.status == http.StatusOK && string(old.body) == string(e.honest.body) {
		return false
	}
	return e.send(old)
}

func (e *evil) lead(to string) bool { return e.answer(http.StatusFound, "", "Location", to) }
