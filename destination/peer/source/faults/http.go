package faults

import (
	"net/http"
	"strconv"
	"time"
)

// Wrap puts the faults before a handler; document tells the escaped paths of documents from those of resources.
func (f *Set) Wrap(next http.Handler, document func(path string) bool) http.Handler {
	if f == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		set := &f.Resources
		if document(path) {
			set = &f.Documents
		}
		if !wait(r, set.Latency) {
			return
		}
		kind, dice := f.choose(set, path)
		switch kind {
		case fault5xx:
			http.Error(w, "a fault on purpose", []int{500, 502, 503}[dice%3])
			return
		case faultThrottle:
			w.Header().Set("Retry-After", strconv.FormatUint(set.RetryAfter, 10))
			http.Error(w, "a fault on purpose", http.StatusTooManyRequests)
			return
		case faultHTML:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte("<!DOCTYPE html>\n<html><head><title>Sorry</title></head>" +
				"<body><h1>We are down for maintenance</h1></body></html>\n"))
			return
		}
		if kind != faultNone || set.Slow > 0 {
			w = &faultyWriter{ResponseWriter: w, request: r, kind: kind, slow: int64(set.Slow), turn: -1}
		}
		next.ServeHTTP(w, r)
	})
}

// wait pauses and reports whether the caller is still there.
func wait(r *http.Request, pause time.Duration) bool {
	if pause <= 0 {
		return true
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// documentTurn is where a body of unknown length goes wrong: even the shortest document is longer.
const documentTurn = 100

// faultyWriter lets a body pass up to a point and does its fault there. It hides ReadFrom and Flush.
type faultyWriter struct {
	http.ResponseWriter
	request *http.Request
	kind    fault
	slow    int64
	turn    int64 // the byte at which the fault happens; -1 until the header is written
	sent    int64
}

// Unwrap lets deadlines through.
func (f *faultyWriter) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func (f *faultyWriter) WriteHeader(status int) {
	f.turn = documentTurn
	length, err := strconv.ParseInt(f.Header().Get("Content-Length"), 10, 64)
	if err == nil {
		f.turn = length / 2
	}
	switch {
	case status != http.StatusOK && status != http.StatusPartialContent, f.request.Method == http.MethodHead,
		err == nil && length == 0:
		f.kind = faultNone
	case f.kind == faultCutClose && status != http.StatusOK:
		f.kind = faultCut
	case f.kind == faultCutClose: // a body that ends with its connection looks whole (F55)
		f.Header().Del("Content-Length")
		f.Header().Set("Transfer-Encoding", "identity")
	}
	f.ResponseWriter.WriteHeader(status)
}

func (f *faultyWriter) Write(b []byte) (int, error) {
	if f.turn < 0 {
		f.WriteHeader(http.StatusOK)
	}
	rest := f.turn - f.sent
	switch {
	case f.kind == faultNone || rest >= int64(len(b)) || rest < 0:
		return f.drip(b)
	case f.kind == faultCutClose:
		_, err := f.drip(b[:rest])
		return len(b), err
	case f.kind == faultWrong:
		b = append([]byte(nil), b...)
		b[rest] ^= 1
		return f.drip(b)
	}
	if _, err := f.drip(b[:rest]); err != nil {
		return 0, err
	}
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	if f.kind == faultStall {
		<-f.request.Context().Done()
	}
	panic(http.ErrAbortHandler)
}

// drip writes at the speed asked for.
func (f *faultyWriter) drip(b []byte) (int, error) {
	if f.slow == 0 {
		n, err := f.ResponseWriter.Write(b)
		f.sent += int64(n)
		return n, err
	}
	written := 0
	for len(b) > 0 {
		// Ten pieces a second, or one byte at a time.
		piece := b[:min(int64(len(b)), max(1, f.slow/10))]
		n, err := f.ResponseWriter.Write(piece)
		written, f.sent = written+n, f.sent+int64(n)
		if err != nil {
			return written, err
		}
		control := http.NewResponseController(f.ResponseWriter)
		_ = control.SetWriteDeadline(time.Now().Add(time.Minute))
		_ = control.Flush()
		if !wait(f.request, time.Duration(int64(len(piece))*int64(time.Second)/f.slow)) {
			return written, f.request.Context().Err()
		}
		b = b[len(piece):]
	}
	return written, nil
}
