package source

import (
	"compress/gzip"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"resyncd/destination/rsdoc"
)

// serveDocument answers with a document, or with 304 where the caller has it already.
func (s *Source) serveDocument(w http.ResponseWriter, r *http.Request, d document) {
	s.serveText(w, r, passage{
		tag: d.tag, modified: d.modified, mediaType: "application/xml",
		write: func(w io.Writer) error { return s.write(w, d) },
	})
}

// serveRoot answers with a page for people that also leads programs to the set [6.3] and to the feeds.
func (s *Source) serveRoot(w http.ResponseWriter, r *http.Request) {
	s.serveText(w, r, passage{
		tag: "h", modified: s.begin, mediaType: "text/html; charset=utf-8",
		write: func(w io.Writer) error {
			return rootPage().Execute(w, map[string]any{
				"Base": s.options.Base + "/", "Description": s.Description(),
				"Capabilities": s.at(capabilityList), "Resources": s.at(resourceList),
				"Feeds": s.feedLinks(),
			})
		},
	})
}

// serveRobots answers for robots.txt where the folder has none of its own [6.3].
func (s *Source) serveRobots(w http.ResponseWriter, r *http.Request) {
	s.serveText(w, r, passage{
		tag: "b", modified: s.begin, mediaType: "text/plain; charset=utf-8",
		write: func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "User-agent: *\nDisallow:\n\nSitemap: %s\n", s.at(resourceList))
			return err
		},
	})
}

func rootPage() *template.Template {
	return template.Must(template.New("root").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>ResourceSync Source</title>
<link rel="resourcesync" href="{{.Capabilities}}">
{{range .Feeds}}<link rel="alternate" type="application/{{if .RSS}}rss{{else}}atom{{end}}+xml" href="{{.URL}}" title="{{.Title}}">
{{end}}</head>
<body>
<h1>ResourceSync Source</h1>
<p>This server publishes the resources below <code>{{.Base}}</code> for synchronisation.</p>
<ul>
<li><a href="{{.Description}}">Source Description</a></li>
<li><a href="{{.Capabilities}}">Capability List</a></li>
<li><a href="{{.Resources}}">Resource List</a></li>
{{range .Feeds}}<li><a href="{{.URL}}">{{.Title}}</a></li>
{{end}}</ul>
</body>
</html>
`))
}

// passage is something that we write ourselves.
type passage struct {
	tag       string // changes whenever the text does
	modified  rsdoc.Micros
	mediaType string
	write     func(io.Writer) error
}

func (s *Source) serveText(w http.ResponseWriter, r *http.Request, t passage) {
	h := w.Header()
	h.Set("Content-Type", t.mediaType)
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept-Encoding")
	stem := `"` + strconv.FormatInt(int64(s.begin), 36) + "-" + t.tag
	plain, zipped := stem+`"`, stem+`-gz"`
	squeeze := acceptsGzip(r.Header.Get("Accept-Encoding"))
	if squeeze {
		h.Set("ETag", zipped)
	} else {
		h.Set("ETag", plain)
	}
	modified := t.modified.Time()
	if known := s.stable(modified); !known.IsZero() {
		h.Set("Last-Modified", known.Format(http.TimeFormat))
	}
	if unchanged(r, modified, plain, zipped) {
		h.Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if squeeze {
		h.Set("Content-Encoding", "gzip")
	}
	if r.Method == http.MethodHead {
		return
	}
	out := io.Writer(&patient{w: w, control: http.NewResponseController(w)})
	if err := s.send(out, t, squeeze); err != nil {
		// The head is sent; only a broken connection still tells the reader that this is not the whole.
		panic(http.ErrAbortHandler)
	}
}

// send writes the text, zipped or not.
func (s *Source) send(w io.Writer, t passage, squeeze bool) error {
	if !squeeze {
		return t.write(w)
	}
	z, ok := s.gzips.Get().(*gzip.Writer)
	if !ok {
		z, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // a level that exists
	}
	defer s.gzips.Put(z)
	z.Reset(w)
	if err := t.write(z); err != nil {
		return err
	}
	return z.Close()
}

// unchanged tells whether a conditional request is about what the caller already has. Both codings of a document have the
// same content, so a tag of either will do.
func unchanged(r *http.Request, modified time.Time, tags ...string) bool {
	if match := strings.Join(r.Header.Values("If-None-Match"), ","); match != "" {
		return tagMatches(match, tags...)
	}
	since, err := http.ParseTime(r.Header.Get("If-Modified-Since"))
	return err == nil && since.Unix() == modified.Unix()
}

// acceptsGzip reads Accept-Encoding; only a plain wish for gzip counts.
func acceptsGzip(header string) bool {
	for coding := range strings.SplitSeq(header, ",") {
		name, parameter, _ := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		q, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(parameter)), "q=")
		if !ok {
			return true
		}
		weight, err := strconv.ParseFloat(q, 64)
		return err == nil && weight > 0
	}
	return false
}

// patient gives a reader a minute for each piece; one that takes nothing for that long is let go (P8).
type patient struct {
	w       io.Writer
	control *http.ResponseController
}

func (p *patient) Write(b []byte) (int, error) {
	// Writers that have no deadline, as in tests, need none.
	_ = p.control.SetWriteDeadline(time.Now().Add(time.Minute))
	return p.w.Write(b)
}
