package sync

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// evWindow is how long the Change Lists of UntilAhead are.
const evWindow = 4 * time.Minute

// roll begins a new Change List where its time has come.
func (s *evSource) roll() {
	if !s.odd.UntilAhead || !s.hasCL {
		return
	}
	for last := s.windows[len(s.windows)-1]; !s.appNow().Before(last.Add(evWindow)); last = s.windows[len(s.windows)-1] {
		s.windows = append(s.windows, last.Add(evWindow))
	}
	if !s.odd.Batched {
		s.writeChanges()
	}
}

// rotate closes the Change List and begins another one; forget leaves out those before.
func (s *evSource) rotate(forget bool) {
	if s.odd.UntilAhead {
		return
	}
	if forget { // its from is later than anything that it does not tell
		s.clock = s.clock.Truncate(time.Second).Add(time.Second)
	}
	if s.clIndex {
		s.windows = append(s.windows, s.appNow())
		if forget {
			s.first = len(s.windows) - 1
		}
	} else if forget {
		s.windows = append(s.windows, s.appNow())
		s.first = len(s.windows) - 1
	}
	if !s.odd.Batched {
		s.writeChanges()
	}
}

func (s *evSource) writeChanges() {
	if !s.hasCL {
		return
	}
	const kind = "changelist"
	before := s.changes
	s.changes = map[string]*evPage{}
	last := map[string]int{}
	for i, e := range s.events {
		last[e.name] = i
	}
	var entries []string
	render := func(w int) []string {
		var out []string
		for i, e := range s.events {
			if e.window == w && (!s.odd.Pruned || last[e.name] == i) {
				out = append(out, s.told(e))
			}
		}
		return out
	}
	from := func(w int) string { return attr("from", s.stamp(s.windows[w])) }
	switch {
	case s.odd.NoFrom:
		all := s.events[max(0, len(s.events)-s.keepN):]
		for _, e := range all {
			entries = append(entries, s.told(e))
		}
		s.put(s.changes, before, "/cl.xml", list(kind, "", entries...))
	case s.clIndex || s.odd.UntilAhead:
		for w := s.first; w < len(s.windows); w++ {
			md := from(w)
			switch {
			case s.odd.UntilAhead:
				md += attr("until", s.stamp(s.windows[w].Add(evWindow)))
			case w < len(s.windows)-1:
				md += attr("until", s.stamp(s.windows[w+1]))
			}
			path := fmt.Sprintf("/c%d.xml", w)
			s.put(s.changes, before, path, list(kind, md, render(w)...))
			entries = append(entries, "<sitemap><loc>"+s.base+path+"</loc><rs:md"+md+"/></sitemap>")
		}
		s.put(s.changes, before, "/cl.xml", index(kind, from(s.first), entries...))
	default:
		for w := s.first; w < len(s.windows); w++ {
			entries = append(entries, render(w)...)
		}
		s.put(s.changes, before, "/cl.xml", list(kind, from(s.first), entries...))
	}
}

// document finds what is served at a path.
func (s *evSource) document(path string) *evPage {
	if p := s.stale[path]; p != nil {
		return p
	}
	if len(s.lists) > 0 {
		if p := s.lists[s.serving][path]; p != nil {
			return p
		}
	}
	if p := s.changes[path]; p != nil {
		return p
	}
	kinds := []string{"resourcelist", "/rl.xml"}
	if s.odd.TwoLists {
		kinds = append(kinds, "resourcelist", "/rl2.xml")
	}
	if s.hasCL {
		kinds = append(kinds, "changelist", "/cl.xml")
	}
	var entries []string
	for i := 0; i < len(kinds); i += 2 {
		entries = append(entries, "<url><loc>"+s.base+kinds[i+1]+"</loc><rs:md"+attr("capability", kinds[i])+"/></url>")
	}
	switch path {
	case "/.well-known/resourcesync":
		return &evPage{list("description", "", "<url><loc>"+s.base+`/cap.xml</loc><rs:md capability="capabilitylist"/></url>`), evBegin}
	case "/cap.xml":
		return &evPage{list("capabilitylist", "", entries...), evBegin}
	}
	return nil
}

func (s *evSource) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if s.midway != nil {
		s.midway(s.requests)
	}
	if s.over != nil && s.over(w, req) {
		return
	}
	w.Header()["Date"] = nil
	if !s.odd.NoDate {
		w.Header().Set("Date", s.serverNow().UTC().Format(http.TimeFormat))
	}
	path := req.URL.Path
	if p := s.document(path); p != nil {
		s.answer(w, req, p, !s.odd.NoModified && s.validBy != 0 || s.odd.OldModified, s.validBy != 1)
		return
	}
	r := s.files[strings.TrimPrefix(path, "/")]
	if r == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if r.served {
		s.asks++
	}
	if s.answer(w, req, r.page, true, s.validBy != 1) {
		r.served = true
	}
}

// answer serves a page, or tells that it is what it was; it reports whether the bytes went out.
func (s *evSource) answer(w http.ResponseWriter, req *http.Request, p *evPage, modified, tagged bool) bool {
	at, tag := p.modified.UTC().Format(http.TimeFormat), ""
	switch {
	case s.odd.NoValid:
		modified, tagged = modified && s.odd.NoAt, false // its time may be all there is
	case s.odd.SecondETag:
		tag, tagged = fmt.Sprintf(`"%x-%x"`, p.modified.Unix(), len(p.text)), true
	default:
		tag = fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(p.text)))
	}
	if modified {
		w.Header().Set("Last-Modified", at)
	}
	if tagged {
		w.Header().Set("ETag", tag)
	}
	asked, since := req.Header.Get("If-None-Match"), req.Header.Get("If-Modified-Since")
	if !s.odd.NoValid && (asked != "" && tagged && asked == tag || asked == "" && since != "" && modified && since == at) {
		w.WriteHeader(http.StatusNotModified)
		return false
	}
	_, _ = io.WriteString(w, p.text)
	return true
}
