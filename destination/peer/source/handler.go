package source

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"resyncd/destination/gate"
)

// Serve answers requests on a listener until ctx ends, then finishes what is running for up to ten seconds. It closes
// the listener and returns nil after such an end.
func (s *Source) Serve(ctx context.Context, listener net.Listener) error {
	return gate.Serve(ctx, &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}, gate.Options{Listener: listener, MaxConns: math.MaxInt, MaxConnsPerIP: math.MaxInt, Grace: 10 * time.Second,
		Log: s.options.Logger})
}

// Handler answers GET and HEAD for documents and resources, with the Faults asked for. Its root is "/".
func (s *Source) Handler() http.Handler {
	return s.options.Faults.Wrap(http.HandlerFunc(s.serve), s.isDocument)
}

// isDocument reports whether an escaped path leads to a document.
func (s *Source) isDocument(path string) bool {
	return path == "/" || path == "/robots.txt" || s.reserved(strings.TrimPrefix(path, "/"))
}

// serve routes by hand: http.ServeMux would redirect names such as a//b.
func (s *Source) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	// A kept connection may have the deadline of the request before.
	allowTime(w, 0)
	if r.ContentLength != 0 {
		// Nobody needs to send a body here.
		h.Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(10 * time.Second))
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		h.Set("Connection", "close")
		http.Error(w, "only GET and HEAD are answered here", http.StatusMethodNotAllowed)
		return
	}
	name, ok := requestName(r.URL)
	switch {
	case r.URL.EscapedPath() == "/":
		s.serveText(w, r, s.rootPage())
	case !ok:
		s.refuse(w, r, errAbsent)
	case s.reserved(name):
		t, err := s.document(name, r.Method == http.MethodGet)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		s.serveText(w, r, t)
	default:
		s.serveResource(w, r, name)
	}
}

func (s *Source) serveResource(w http.ResponseWriter, r *http.Request, name string) {
	rec, open, err := s.find(name)
	if errors.Is(err, errAbsent) && name == "robots.txt" {
		s.serveText(w, r, s.robots())
		return
	}
	var b body
	if err == nil {
		b, err = open()
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	if b.close != nil {
		defer b.close()
	}
	h := w.Header()
	h.Set("Content-Type", s.mediaType(name))
	h.Set("Cache-Control", "no-cache")
	h.Set("Link", fmt.Sprintf("<%s>; rel=\"resourcesync\"", s.at(capabilityList)))
	if b.exact {
		h.Set("ETag", `"`+hex.EncodeToString(rec.sum[:])+`"`)
	}
	// A file may be replaced by an older one.
	since, err := http.ParseTime(r.Header.Get("If-Modified-Since"))
	if r.Header.Get("If-Modified-Since") != "" && (err != nil || since.Unix() != b.modified.Unix()) {
		r = r.Clone(r.Context())
		r.Header.Del("If-Modified-Since")
	}
	allowTime(w, rec.length)
	http.ServeContent(w, r, "", s.stable(b.modified), b.ReadSeeker)
}

func (s *Source) refuse(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, errGone):
		http.Error(w, "this resource has been deleted", http.StatusGone)
	case errors.Is(err, errAbsent), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		http.Error(w, "no such resource", http.StatusNotFound)
	case errors.Is(err, errChanging):
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the resource is changing", http.StatusServiceUnavailable)
	default:
		s.options.Logger.Warn("resource not readable", "path", r.URL.EscapedPath(), "err", err)
		http.Error(w, "the resource cannot be read", http.StatusInternalServerError)
	}
}

// stable returns a time for Last-Modified, or none while another change in the same second would not show.
func (s *Source) stable(modified time.Time) time.Time {
	if modified.Unix() >= s.options.Now().Unix() {
		return time.Time{}
	}
	return modified
}

// allowTime bounds how long a response may take: a reader of less than 16 KiB a second is let go (P8).
func allowTime(w http.ResponseWriter, length int64) {
	wait := time.Minute + time.Duration(length>>14)*time.Second
	// Writers of tests have no deadline.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait))
}
