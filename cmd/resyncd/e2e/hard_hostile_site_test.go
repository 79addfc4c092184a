package e2e_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// page is what one path of a hostile Source answers. In bodies and headers {base} stands for the Source's own address.
type page struct {
	status int
	header []string // name, value, name, value, …
	body   string
	raw    string                   // instead of all that: bytes on the connection, which is closed then
	more   func(io.Writer) int      // after raw: writes on until that fails, and tells how much
	made   func(base string) string // instead of body: one that knows the Source's own address
}

// pages are the answers of a Source by path. Any path below /r/ that is not among them is a sound resource.
type pages map[string]page

// badSource is one Source that is bad in one way, and what must come of it.
type badSource struct {
	name  string
	start string // path that is configured, "" for /list.xml
	pages pages
	want  fate
}

// fate is what must come of a Source: the bodies in its mirror, whether the run calls it in step, what the run leaves,
// and words that it must be told in.
type fate struct {
	files         int
	inStep        bool
	owed, refused int64
	held          int64 // removals that wait for the operator: no row may bring one about
	says          string
}

func fine(files int) fate                { return fate{files: files, inStep: true} }
func skips(files int, says string) fate  { return fate{files: files, inStep: true, says: says} }
func notUsed(says string) fate           { return fate{says: says} }
func behind(files int, says string) fate { return fate{files: files, says: says} }
func owes(files int, owed int64) fate    { return fate{files: files, owed: owed} }

func (f fate) String() string {
	return fmt.Sprintf("%d files, in step %v, %d owed, %d refused, %d held", f.files, f.inStep, f.owed, f.refused, f.held)
}

// site is a hostile Source that is being served, each on a port of its own: what one does to us must not count against
// another as if it were the same host.
type site struct {
	*httptest.Server
	bad badSource
	// calm: until the storm, /list.xml is a sound list of three resources.
	calm atomic.Bool

	mu     sync.Mutex
	bodies map[[32]byte]bool // every body that it published whole
	gets   int               // requests for resources
	sent   int               // bytes of endless answers
}

func serveBad(t *testing.T, bad badSource) *site {
	t.Helper()
	s := &site{bad: bad, bodies: map[[32]byte]bool{}}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = nil
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// at puts the Source's own address in.
func (s *site) at(text string) string {
	return strings.NewReplacer("{base}", s.URL, "{host}", strings.TrimPrefix(s.URL, "http://")).Replace(text)
}

func bodyOf(path string) string { return "the resource at " + path + "\n" }

func (s *site) publish(body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies[sha256.Sum256([]byte(body))] = true
}

func (s *site) published(body []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies[sha256.Sum256(body)]
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, ok := s.bad.pages[r.URL.Path]
	if !ok && strings.HasPrefix(r.URL.Path, "/r/") {
		p = page{body: bodyOf(r.URL.Path)}
		s.mu.Lock()
		s.gets++
		s.mu.Unlock()
	} else if !ok {
		http.NotFound(w, r)
		return
	}
	if r.URL.Path == "/list.xml" && s.calm.Load() {
		p = page{body: resourceList(entries("/r/a", "/r/b", "/r/c"))}
	}
	if p.raw != "" {
		s.answerRaw(w, p)
		return
	}
	body := s.at(p.body)
	if p.made != nil {
		body = p.made(s.URL)
	}
	for i := 0; i+1 < len(p.header); i += 2 {
		w.Header().Add(p.header[i], s.at(p.header[i+1]))
	}
	if p.status == 0 || p.status == http.StatusOK {
		s.publish(body)
	}
	if w.Header().Get("Content-Length") == "" {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	if p.status != 0 {
		w.WriteHeader(p.status)
	}
	_, _ = io.WriteString(w, body) // who hung up is none of ours
}

// answerRaw speaks for itself, past net/http.
func (s *site) answerRaw(w http.ResponseWriter, p page) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, s.at(p.raw)); err != nil || p.more == nil {
		closeGently(conn)
		return
	}
	n := p.more(conn)
	s.mu.Lock()
	s.sent += n
	s.mu.Unlock()
}

// closeGently lets what was written arrive: a close with unread input would be a reset.
func closeGently(conn net.Conn) {
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	}
}
