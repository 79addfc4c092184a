package e2e_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
	"resyncd/sync/keymap"
)

// annals are what a Source published, version by version: the truth that oracles go by (faults.md, "truth source"). No body
// is ever published twice.
type annals struct {
	// late: who is told of changes out of order may fetch a version early, follow the deletion before it then, and fetch it
	// again; only what was never deleted must never go.
	late atomic.Bool

	mu     sync.Mutex
	byURI  map[string][]edition
	serial int
}

// edition is one version of a resource, or the absence of it.
type edition struct {
	at   rsdoc.Micros
	sum  [32]byte
	gone bool
}

func newAnnals() *annals { return &annals{byURI: map[string][]edition{}} }

// heard is the Source's OnChange.
func (a *annals) heard(c source.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byURI[c.URI] = append(a.byURI[c.URI], edition{at: c.Datetime, sum: c.SHA256, gone: c.Change == rsdoc.ChangeDeleted})
}

func (a *annals) uris() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.byURI))
}

// number is the place of a body among the editions of a resource, -1 for one that was never published.
func (a *annals) number(uri string, sum [32]byte) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.IndexFunc(a.byURI[uri], func(e edition) bool { return e.sum == sum && !e.gone })
}

// since is the place of the edition of that instant, -1 if there is none.
func (a *annals) since(uri string, at rsdoc.Micros) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.IndexFunc(a.byURI[uri], func(e edition) bool { return e.at == at })
}

// goneSince tells whether a resource was deleted in its edition n, or later.
func (a *annals) goneSince(uri string, n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.byURI[uri][n:], func(e edition) bool { return e.gone })
}

// living are the bodies of this instant.
func (a *annals) living() map[string][32]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string][32]byte{}
	for uri, all := range a.byURI {
		if last := all[len(all)-1]; !last.gone {
			out[uri] = last.sum
		}
	}
	return out
}

// body is one that nobody has published yet.
func (a *annals) body() []byte {
	a.mu.Lock()
	a.serial++
	head := fmt.Sprintf("body %d\n", a.serial)
	a.mu.Unlock()
	size := rand.IntN(2000)
	if rand.IntN(8) == 0 {
		size = rand.IntN(200_000)
	}
	return []byte(head + strings.Repeat("x", size))
}

// pathIn is where a mirror keeps a resource.
func pathIn(mirror, uri string) string {
	key, err := keymap.NaturalKey(uri)
	if err != nil {
		panic(err) // a name of our own making
	}
	return filepath.Join(mirror, filepath.FromSlash(key))
}

// differences holds a mirror at rest against the living bodies: what is missing, wrong or extra.
func (a *annals) differences(mirror string) (missing, wrong, extra []string, err error) {
	found, err := files(mirror)
	if err != nil {
		return nil, nil, nil, err
	}
	for uri, sum := range a.living() {
		key, kerr := keymap.NaturalKey(uri)
		if kerr != nil {
			return nil, nil, nil, kerr
		}
		switch got := found[key]; got {
		case "":
			missing = append(missing, uri)
		case fmt.Sprintf("%x", sum):
		default:
			wrong = append(wrong, uri)
		}
		delete(found, key)
	}
	return missing, wrong, slices.Sorted(maps.Keys(found)), nil
}

// equals insists on a mirror at rest that is what the Source is.
func (a *annals) equals(t *testing.T, mirror string) {
	t.Helper()
	missing, wrong, extra, err := a.differences(mirror)
	if err != nil || len(missing)+len(wrong)+len(extra) > 0 {
		t.Errorf("the mirror is not what the Source is: missing %v, wrong %v, extra %v, %v", missing, wrong, extra, err)
	}
}

// witness reads final paths all the time: each read must be of a published edition (P2), and never of one before that
// which was seen last (P6); and what was seen stays until its Source deletes it (P5).
type witness struct {
	annals *annals
	mirror string
	stop   chan struct{}
	done   chan struct{}

	mu    sync.Mutex
	last  map[string]int
	reads int
	wrong []string
}

// watchOver begins to look at a mirror, a few files at a time, until quit.
func (a *annals) watchOver(mirror string, every time.Duration) *witness {
	w := &witness{annals: a, mirror: mirror, stop: make(chan struct{}), done: make(chan struct{}), last: map[string]int{}}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			for _, uri := range w.annals.uris() {
				select {
				case <-w.stop:
					return
				default:
				}
				if w.read(uri) {
					<-tick.C
				}
			}
			<-tick.C
		}
	}()
	return w
}

// read looks at one file, and tells whether it is there.
func (w *witness) read(uri string) bool {
	b, err := os.ReadFile(pathIn(w.mirror, uri))
	if err != nil {
		w.misses(uri, err)
		return false
	}
	n := w.annals.number(uri, sha256.Sum256(b))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	switch last := w.last[uri]; {
	case n < 0:
		w.wrong = append(w.wrong, fmt.Sprintf("P2: %s holds %d bytes that were never published: %.40q", uri, len(b), b))
	case n < last:
		w.wrong = append(w.wrong, fmt.Sprintf("P6: %s went back from edition %d to %d", uri, last, n))
	default:
		w.last[uri] = n
	}
	return true
}

// misses: a file that cannot be read. The Source tells of a deletion before anyone can follow it.
func (w *witness) misses(uri string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, seen := w.last[uri]
	since := last
	if w.annals.late.Load() {
		since = 0
	}
	if seen && errors.Is(err, fs.ErrNotExist) && !w.annals.goneSince(uri, since) {
		w.wrong = append(w.wrong, fmt.Sprintf("P5: %s went, and nobody deleted it after its edition %d", uri, last))
		delete(w.last, uri)
	}
}

// quit ends the looking and tells what was seen.
func (w *witness) quit(t *testing.T) (reads int) {
	t.Helper()
	close(w.stop)
	<-w.done
	for _, v := range w.wrong {
		t.Error(v)
	}
	if w.reads == 0 {
		t.Error("the witness read nothing")
	}
	return w.reads
}
