package sync

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
)

// otherPath is a feed that a page in the feed's place links to.
const otherPath = "/comments"

func (s *feedSource) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if s.over != nil && s.over(w, req) {
		return
	}
	path := req.URL.Path
	w.Header().Set("Date", s.clock.UTC().Format(http.TimeFormat))
	if f := s.files[path]; f != nil {
		s.answer(w, req, &feedDoc{body: f.text, changed: s.clock}, "text/plain")
		return
	}
	d := s.docs[path]
	switch {
	case path == otherPath:
		items := []*feedItem{{id: "tag:test,2024:other", text: "other", at: s.clock}}
		for _, id := range s.ids[:min(2, len(s.ids))] {
			items = append(items, &feedItem{id: id, gone: true, at: s.clock})
		}
		d = &feedDoc{body: feedText("", items), changed: s.clock}
	case path == feedPath && s.inPage:
		page := &feedDoc{body: `<html><head><link rel="alternate" type="application/atom+xml" href="` + otherPath + `"></head></html>`, changed: s.clock}
		s.answer(w, req, page, "text/html")
		return
	case path == feedPath && s.broken > 0:
		switch s.broken {
		case 1:
			w.WriteHeader(http.StatusNotFound)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			s.answer(w, req, &feedDoc{body: d.body[:len(d.body)*2/3], changed: s.clock}, "application/atom+xml")
		default:
			s.answer(w, req, &feedDoc{changed: s.clock}, "application/atom+xml")
		}
		return
	case s.stale[path] != nil && req.Header.Get("Cache-Control") == "":
		d = s.stale[path]
		w.Header().Set("Date", d.date.UTC().Format(http.TimeFormat))
		w.Header().Set("Age", fmt.Sprint(int(s.clock.Sub(d.date).Seconds())))
	}
	if d == nil || s.missing[path] {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if s.answer(w, req, d, "application/atom+xml") {
		for _, it := range d.items {
			s.served[it] = true
		}
	}
}

// answer serves a document, or tells that it is what it was; it reports whether the bytes went out.
func (s *feedSource) answer(w http.ResponseWriter, req *http.Request, d *feedDoc, typ string) bool {
	w.Header().Set("Content-Type", typ)
	if s.odd.NoTag {
		_, _ = io.WriteString(w, d.body)
		return true
	}
	tag, at := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(d.body))), d.changed.UTC().Format(http.TimeFormat)
	if s.odd.SecondTag {
		tag = fmt.Sprintf(`"%x-%x"`, d.changed.Unix(), len(d.body))
	}
	modified, tagged := s.validBy != 0 && typ != "text/plain", s.validBy != 1 || typ == "text/plain"
	if modified {
		w.Header().Set("Last-Modified", at)
	}
	if tagged {
		w.Header().Set("ETag", tag)
	}
	asked, since := req.Header.Get("If-None-Match"), req.Header.Get("If-Modified-Since")
	if asked != "" && tagged && asked == tag || asked == "" && since != "" && modified && since == at {
		w.WriteHeader(http.StatusNotModified)
		return false
	}
	_, _ = io.WriteString(w, d.body)
	return true
}
