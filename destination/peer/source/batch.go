package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"resyncd/destination/rsdoc"
)

const (
	maxBatch      = 1_000   // URIs
	maxBatchBytes = 1 << 20 // of a request
)

// serveBatch answers a JSON array of URIs with a package of those that are published and hold still; it says nothing of
// the others.
func (s *Source) serveBatch(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	refuse := func(status int, why string) {
		h.Set("Connection", "close")
		http.Error(w, why, status)
	}
	if r.Method != http.MethodPost {
		h.Set("Allow", http.MethodPost)
		refuse(http.StatusMethodNotAllowed, "only POST is answered here")
		return
	}
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != jsonType {
		refuse(http.StatusUnsupportedMediaType, "want a JSON array of URIs as "+jsonType)
		return
	}
	var uris []string
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBatchBytes))
	_, large := errors.AsType[*http.MaxBytesError](err)
	if err == nil {
		err = json.Unmarshal(text, &uris)
	}
	switch {
	case large || len(uris) > maxBatch:
		why := fmt.Sprintf("want at most %d URIs in %d bytes", maxBatch, maxBatchBytes)
		refuse(http.StatusRequestEntityTooLarge, why)
		return
	case err != nil || uris == nil:
		refuse(http.StatusBadRequest, "want a JSON array of URIs")
		return
	}
	h.Del("Connection")
	// Past the deadline for the request, net/http would take the caller for gone.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	h.Set("Content-Type", "application/zip")
	h.Set("Cache-Control", "no-store")
	head := s.newHead(rsdoc.List, rsdoc.KindResourceDumpManifest)
	what, at := s.published(uris)
	head.At = at
	if _, err := s.pack(deadlineWriter{w}, head, what, nil); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// published finds the living resources among URIs, each once, and the instant at which they are what is found.
func (s *Source) published(uris []string) (all []event, at rsdoc.Micros) {
	seen := map[string]bool{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, uri := range uris {
		path, ours := strings.CutPrefix(uri, s.at(""))
		name, err := url.PathUnescape(path)
		if !ours || err != nil || seen[uri] || s.URI(name) != uri {
			continue
		}
		seen[uri] = true
		if rec := s.catalog.find(name); rec != nil && rec.live {
			all = append(all, event{at: rsdoc.NoTime, record: rec})
		}
	}
	return all, s.instant()
}
