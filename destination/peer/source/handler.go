package source

import (
	"compress/gzip"
	"context"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"resyncd/destination/gate"
	"resyncd/destination/rsdoc"
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

// isDocument reports whether an escaped path leads to a document; a package of a dump is none.
func (s *Source) isDocument(path string) bool {
	name := strings.TrimPrefix(path, "/")
	return name == "" || name == "robots.txt" || s.reserved(name) && !strings.HasSuffix(name, packageEnd)
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
	if s.options.Batch && r.URL.EscapedPath() == "/"+batchEndpoint {
		s.serveBatch(w, r)
		return
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
		s.serveText(w, r, s.root())
	case !ok:
		s.refuse(w, r, errAbsent)
	case s.reserved(name) && strings.HasSuffix(name, packageEnd):
		zip, err := s.dumps.zip(strings.TrimSuffix(name, packageEnd))
		s.serveRecord(w, r, zip, err)
	case s.reserved(name):
		t, err := s.document(name, r.Method == http.MethodGet)
		allowTime(w, 0) // a package may have been gathered for it
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
	rec, err := s.find(name)
	if errors.Is(err, errAbsent) && name == "robots.txt" {
		s.serveText(w, r, s.robots())
		return
	}
	s.serveRecord(w, r, rec, err)
}

// serveRecord answers with the bytes of a resource or package, or with why there are none.
func (s *Source) serveRecord(w http.ResponseWriter, r *http.Request, rec *record, err error) {
	var b body
	if err == nil {
		b, err = rec.content.open(rec)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	if b.close != nil {
		defer b.close()
	}
	h := w.Header()
	h.Set("Content-Type", s.mediaType(rec.name))
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

// text is something that the Source writes itself: a document, a feed, a topic, a page.
type text struct {
	tag       string       // changes whenever the text does
	modified  rsdoc.Micros // NoTime where that is not known
	mediaType string
	write     func(io.Writer) error
	body      []byte // in the place of write, never compressed: one representation for one self URI (P-04)
	links     string // Link header
}

// topic is what the topic URI of a channel shows.
type topic struct {
	mu     sync.Mutex
	body   []byte
	at     rsdoc.Micros
	number uint64
	// read is closed when somebody fetches the body; nil: somebody has, or there is none.
	read chan struct{}
}

// show replaces the body. Nobody fetches it while build works, which gets whether the present one was fetched.
func (t *topic) show(build func(fetched bool) ([]byte, rsdoc.Micros, error)) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	body, at, err := build(t.read == nil)
	if err != nil {
		return nil, err
	}
	t.body, t.at, t.read = body, at, make(chan struct{})
	t.number++
	return body, nil
}

func (t *topic) fetched() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.read
}

func (t *topic) current(fetch bool) (body []byte, at rsdoc.Micros, number uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if fetch && t.read != nil {
		close(t.read)
		t.read = nil
	}
	return t.body, t.at, t.number
}

// text is the topic: the links that name hub and topic (P-01, R-04), and the latest notification.
func (c *channel) text(fetched bool) text {
	body, at, number := c.topic.current(fetched)
	if number == 0 {
		at = c.s.begin
	}
	return text{
		tag: fmt.Sprintf("n%d", number), modified: at, mediaType: c.mediaType,
		body: body, links: c.links(),
	}
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
		t.modified = max(t.modified, s.begin) // after a restart the same may be said in another way
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

var gzips sync.Pool

func (s *Source) send(w io.Writer, t text, compress bool) error {
	switch {
	case t.write == nil:
		_, err := w.Write(t.body)
		return err
	case !compress:
		return t.write(w)
	}
	z, ok := gzips.Get().(*gzip.Writer)
	if !ok {
		z, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // a level that exists
	}
	defer gzips.Put(z)
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
