package source

import (
	"compress/gzip"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"resyncd/destination/rsdoc"
)

// text is something that the Source writes itself: a document, a feed, a topic, a page.
type text struct {
	tag       string       // changes whenever the text does
	modified  rsdoc.Micros // NoTime where that is not known
	mediaType string
	write     func(io.Writer) error
	body      []byte // in the place of write, never compressed: one representation for one self URI (P-04)
	links     string // Link header
}

// robots is the robots.txt where the folder has none of its own [6.3].
func (s *Source) robots() text {
	return text{
		tag: "b", modified: s.begin, mediaType: "text/plain; charset=utf-8",
		write: func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "User-agent: *\nDisallow:\n\nSitemap: %s\n", s.at(resourceList))
			return err
		},
	}
}

// root leads people and programs to the set [6.3] and to the feeds.
func (s *Source) root() text {
	type link struct {
		URL, Title string
		RSS        bool
	}
	var feeds []link
	for _, f := range s.feeds() {
		feeds = append(feeds, link{f.url(), f.title, f.faults.RSS})
	}
	return text{
		tag: "h", modified: s.begin, mediaType: "text/html; charset=utf-8",
		write: func(w io.Writer) error {
			return rootTemplate.Execute(w, map[string]any{
				"Base": s.at(""), "Description": s.Description(), "Capabilities": s.at(capabilityList),
				"Resources": s.at(resourceList), "Feeds": feeds,
			})
		},
	}
}

//go:embed root.html
var rootPage string

var rootTemplate = template.Must(template.New("root").Parse(rootPage))

// serveText answers with a text, or with 304.
func (s *Source) serveText(w http.ResponseWriter, r *http.Request, t text) {
	h := w.Header()
	h.Set("Content-Type", t.mediaType)
	h.Set("Cache-Control", "no-cache")
	stem := `"` + strconv.FormatInt(int64(s.begin), 36) + "-" + t.tag
	plain, zipped := stem+`"`, stem+`-gz"`
	compress := t.write != nil && acceptsGzip(r.Header.Get("Accept-Encoding"))
	h.Set("ETag", plain)
	if t.write != nil {
		h.Set("Vary", "Accept-Encoding")
	}
	if compress {
		h.Set("ETag", zipped)
	}
	if t.links != "" {
		h.Set("Link", t.links)
	}
	if t.modified.Known() {
		if known := s.stable(t.modified.Time()); !known.IsZero() {
			h.Set("Last-Modified", known.Format(http.TimeFormat))
		}
	}
	if unchanged(r, t.modified, plain, zipped) {
		h.Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if compress {
		h.Set("Content-Encoding", "gzip")
	}
	if t.write == nil {
		h.Set("Content-Length", strconv.Itoa(len(t.body)))
	}
	if r.Method == http.MethodHead {
		return
	}
	if err := s.send(deadlineWriter{w}, t, compress); err != nil {
		// Only a broken connection still tells the reader that this is not the whole.
		panic(http.ErrAbortHandler)
	}
}

func (s *Source) send(w io.Writer, t text, compress bool) error {
	switch {
	case t.write == nil:
		_, err := w.Write(t.body)
		return err
	case !compress:
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

// unchanged reports whether the caller already has the text, in either coding.
func unchanged(r *http.Request, modified rsdoc.Micros, tags ...string) bool {
	if match := strings.Join(r.Header.Values("If-None-Match"), ","); match != "" {
		for candidate := range strings.SplitSeq(match, ",") {
			candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
			if candidate == "*" || slices.Contains(tags, candidate) {
				return true
			}
		}
		return false
	}
	since, err := http.ParseTime(r.Header.Get("If-Modified-Since"))
	return err == nil && modified.Known() && since.Unix() == modified.Time().Unix()
}

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

// deadlineWriter gives a reader a minute for each piece (P8).
type deadlineWriter struct{ http.ResponseWriter }

func (w deadlineWriter) Write(b []byte) (int, error) {
	allowTime(w.ResponseWriter, 0)
	return w.ResponseWriter.Write(b)
}
