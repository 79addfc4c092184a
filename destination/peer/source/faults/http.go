package faults

import (
	"bufio"
	"io"
	"net"
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
			broken := &faultyWriter{ResponseWriter: w, request: r, out: w, kind: kind, slow: int64(set.Slow), turn: -1}
			defer broken.hangUp()
			w = broken
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
	out     io.Writer // the ResponseWriter, or the connection itself
	kind    fault
	slow    int64
	turn    int64 // the byte at which the fault happens; -1 until the header is written
	sent    int64
	// taken is the connection that cutclose has taken over.
	taken  net.Conn
	buffer *bufio.ReadWriter
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
	case f.kind == faultCutClose && (status != http.StatusOK || !f.takeOver()):
		f.kind = faultCut
	}
	if f.taken == nil {
		f.ResponseWriter.WriteHeader(status)
	}
}

// takeOver answers by hand: a body without length, ended with the connection, looks complete (F55). HTTP/2 has no
// connection to take.
func (f *faultyWriter) takeOver() bool {
	var err error
	f.taken, f.buffer, err = http.NewResponseController(f.ResponseWriter).Hijack()
	if err != nil {
		f.taken = nil
		return false
	}
	f.out = f.buffer
	h := f.Header().Clone()
	h.Del("Content-Length")
	h.Set("Connection", "close")
	// An error here shows again when the body is written.
	_, _ = f.buffer.WriteString("HTTP/1.1 200 OK\r\n")
	_ = h.Write(f.buffer)
	_, _ = f.buffer.WriteString("\r\n")
	return true
}

// hangUp ends a connection that was taken over.
func (f *faultyWriter) hangUp() {
	if f.taken != nil {
		_ = f.buffer.Flush()
		_ = f.taken.Close()
	}
}

func (f *faultyWriter) Write(b []byte) (int, error) {
	if f.turn < 0 {
		f.WriteHeader(http.StatusOK)
	}
	rest := f.turn - f.sent
	switch {
	case f.kind == faultNone || rest >= int64(len(b)) || rest < 0:
		return f.drip(b)
	case f.kind == faultWrong:
		b = append([]byte(nil), b...)
		b[rest] ^= 1
		return f.drip(b)
	}
	if _, err := f.drip(b[:rest]); err != nil {
		return 0, err
	}
	if f.taken == nil {
		_ = http.NewResponseController(f.ResponseWriter).Flush()
	}
	if f.kind == faultStall {
		<-f.request.Context().Done()
	}
	panic(http.ErrAbortHandler)
}

// drip writes at the speed asked for.
func (f *faultyWriter) drip(b []byte) (int, error) {
	if f.slow == 0 {
		n, err := f.out.Write(b)
		f.sent += int64(n)
		return n, err
	}
	written := 0
	for len(b) > 0 {
		// Ten pieces a second, or one byte at a time.
		piece := b[:min(int64(len(b)), max(1, f.slow/10))]
		n, err := f.out.Write(piece)
		written, f.sent = written+n, f.sent+int64(n)
		if err != nil {
			return written, err
		}
		if f.taken != nil {
			_ = f.buffer.Flush()
		} else {
			control := http.NewResponseController(f.ResponseWriter)
			_ = control.SetWriteDeadline(time.Now().Add(time.Minute))
			_ = control.Flush()
		}
		if !wait(f.request, time.Duration(int64(len(piece))*int64(time.Second)/f.slow)) {
			return written, f.request.Context().Err()
		}
		b = b[len(piece):]
	}
	return written, nil
}
