package e2e_test

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"resyncd/destination/peer/source"
)

// mischief stands before a Source and has it misbehave as long as a scheme says so. (The faults that Source itself offers
// cannot be switched while it lives, and know nothing of what it said before.)
type mischief struct {
	honest atomic.Pointer[source.Source]
	// elsewhere is another host; strays are the requests for resources there.
	elsewhere *httptest.Server
	strays    atomic.Int64
	requests  atomic.Int64
	ways      map[string]func(*evil) bool // the misdeeds by name

	mu     sync.Mutex
	scheme scheme
	relief chan struct{} // closed when the scheme ends: what hangs goes on
	asked  map[string]int
	did    map[string]int
	past   map[string]*reply // what a stale cache still has, by path
}

// scheme chooses the misdeed for the n-th request of a path; "" is none.
type scheme func(path string, n int) (misdeed string)

// reply is what an honest Source says.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// newMischief begins with no misdeed at all, before no Source yet.
func newMischief() *mischief {
	m := &mischief{ways: map[string]func(*evil) bool{}, asked: map[string]int{}, did: map[string]int{}, past: map[string]*reply{}}
	for _, d := range misdeeds() {
		m.ways[d.name] = d.do
	}
	m.elsewhere = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isDocument(r.URL.Path) { // documents may move where the address policy allows, resources only within their scope
			m.strays.Add(1)
		}
		_, _ = w.Write([]byte("body of another host"))
	}))
	return m
}

// beMischievous stands before the Source of an ordeal from now on.
func (o *ordeal) beMischievous() *mischief {
	o.t.Helper()
	m := newMischief()
	m.honest.Store(o.src)
	o.t.Cleanup(m.elsewhere.Close)
	o.t.Cleanup(m.calm)
	o.front.Store(m)
	return m
}

// begin has the Source misbehave.
func (m *mischief) begin(s scheme) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scheme, m.relief = s, make(chan struct{})
}

// calm ends it, and lets go what it held up.
func (m *mischief) calm() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.scheme != nil {
		close(m.relief)
	}
	m.scheme = nil
}

// count is how often something was done, or a path asked for.
func (m *mischief) count(of map[string]int, what string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return of[what]
}

// told are the misdeeds so far, each with its number.
func (m *mischief) told() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var each []string
	total := 0
	for _, name := range slices.Sorted(maps.Keys(m.did)) {
		each = append(each, fmt.Sprintf("%s %d", name, m.did[name]))
		total += m.did[name]
	}
	return fmt.Sprintf("%d of %d requests answered badly (%s)", total, m.requests.Load(), strings.Join(each, ", "))
}

func (m *mischief) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.requests.Add(1)
	path := r.URL.EscapedPath()
	m.mu.Lock()
	m.asked[path]++
	name := ""
	if m.scheme != nil {
		name = m.scheme(path, m.asked[path])
	}
	relief := m.relief
	m.mu.Unlock()
	if name == "" {
		m.honest.Load().Handler().ServeHTTP(w, r)
		return
	}
	e := &evil{m: m, name: name, w: w, r: r, honest: m.answer(r), relief: relief}
	if !m.ways[name](e) {
		e.send(e.honest)
		return
	}
	e.did()
}

// answer is what the Source says to a request without conditions, and what it said is what a stale cache has from then on.
func (m *mischief) answer(r *http.Request) *reply {
	plain := r.Clone(r.Context())
	for _, h := range []string{"If-None-Match", "If-Modified-Since", "If-Range", "Range", "Accept-Encoding"} {
		plain.Header.Del(h)
	}
	rec := httptest.NewRecorder()
	m.honest.Load().Handler().ServeHTTP(rec, plain)
	a := &reply{status: rec.Code, header: rec.Header().Clone(), body: bytes.Clone(rec.Body.Bytes())}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.past[r.URL.EscapedPath()] == nil && a.status == http.StatusOK {
		m.past[r.URL.EscapedPath()] = a
	}
	return a
}

// keep has a stale cache hold what every path that was asked for says now, and nothing older.
func (m *mischief) keep() {
	m.mu.Lock()
	paths := slices.Collect(maps.Keys(m.asked))
	clear(m.past)
	m.mu.Unlock()
	for _, path := range paths {
		m.answer(httptest.NewRequest(http.MethodGet, path, nil))
	}
}

// isDocument tells the paths of documents from those of resources.
func isDocument(path string) bool {
	return path == "/" || path == "/robots.txt" || strings.HasPrefix(path, "/.")
}

// seeded is a scheme in which so many of the answers of either sort are bad: which, depends on the seed, the path and how
// often it was asked for. Poison is always bad, each in its own way.
func seeded(seed uint64, resources, documents float64, poison map[string]string) scheme {
	ofResources, ofDocuments := names(passing), names(passing, lament, lasting, document)
	laments, slow := names(lament), names(hanging)
	return func(path string, n int) string {
		if name := poison[path]; name != "" {
			return name
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(path))
		dice := rand.New(rand.NewPCG(seed^h.Sum64(), uint64(n)))
		share, ways := resources, ofResources
		if isDocument(path) {
			share, ways = documents, ofDocuments
		}
		switch {
		case dice.Float64() >= share:
			return ""
		case isDocument(path):
		case dice.IntN(200) == 0: // each holds one of the host's places for half a minute or more
			ways = slow
		case dice.IntN(10) == 0: // more, and the daemon would take it for the whole host's
			ways = laments
		}
		return ways[dice.IntN(len(ways))]
	}
}

// noStrays insists that nobody was led to another host.
func (m *mischief) noStrays(t *testing.T) {
	t.Helper()
	if n := m.strays.Load(); n > 0 {
		t.Errorf("%d requests were led to another host", n)
	}
}
