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
	if s.writeBatch(deadlineWriter{w}, uris) != nil {
		panic(http.ErrAbortHandler)
	}
}

// writeBatch writes a package of what was published at one instant. A file that has changed since may be in it, but not
// in the manifest.
func (s *Source) writeBatch(w io.Writer, uris []string) error {
	head := s.newHead(rsdoc.List, rsdoc.KindResourceDumpManifest)
	var records []*record
	records, head.At = s.published(uris)
	var members []member
	z := newZip(w)
	for i, rec := range records {
		path := fmt.Sprintf("resources/%06d", i+1)
		switch got, err := s.add(z, path, rec); {
		case err != nil:
			if err := z.Flush(); err != nil { // the reader is gone
				return err
			}
		case got == rec:
			members = append(members, member{event{at: rsdoc.NoTime, record: rec}, "/" + path})
		}
	}
	return s.finish(z, head, members)
}

// published finds the living resources among URIs, each once, and the instant at which they are what is found.
func (s *Source) published(uris []string) ([]*record, rsdoc.Micros) {
	var records []*record
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
			records = append(records, rec)
		}
	}
	return records, s.instant()
}
