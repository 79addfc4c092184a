package sync

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/peer/source"
	"resyncd/sync/transfer"
)

// witness writes down what a Follower tells of.
type witness struct {
	p    *pusher
	told map[string]int64
}

// witnessed is a pusher that is watched from its first pull on.
func witnessed(t *testing.T, bodies map[string]string, tune func(*Target)) *witness {
	t.Helper()
	w := &witness{p: newPusher(t, source.Options{}, bodies), told: map[string]int64{}}
	w.p.stop()
	w.p.rig.fetch, w.p.tune = quick, tune
	w.p.also = func(o *Observer) {
		o.Settled = func(s transfer.Settled) {
			w.note(fmt.Sprint("settled ", s.Result, " ", s.Class), 1)
			w.note("placed", s.Placed)
			w.note("came", s.Bytes)
			if s.Took > 0 {
				w.note("asked", 1)
			}
		}
		o.Removed = func(n int64) { w.note("removed", n) }
		o.Discovered = func(_ int64, how string) { w.note("found "+how, 1) }
		o.Unread = func(err error) { w.note("unread "+fetch.KindOf(err).String(), 1) }
		o.Skipped = func(n int64) { w.note("skipped", n) }
		o.Doubted = func(reason string) { w.note("doubted "+reason, 1) }
		o.Held = func(_, n int64) { w.note("held", n) }
		o.Rotten = func(n int64) { w.note("rotten", n) }
		o.Halted = func(err error) { w.note(fmt.Sprint("halted ", err != nil), 1) }
	}
	w.p.follow()
	return w
}

func (w *witness) note(what string, n int64) {
	w.p.locked(func() { w.told[what] += n })
}

func (w *witness) of(what string) (n int64) {
	w.p.locked(func() { n = w.told[what] })
	return n
}

func (w *witness) want(t *testing.T, what string, n int64) {
	t.Helper()
	if got := w.of(what); got != n {
		t.Errorf("%s: %d, want %d; all: %v", what, got, n, w.told)
	}
}

// TestObserver: what happens to resources and documents is told, with its class.
func TestObserver(t *testing.T) {
	t.Parallel()
	w := witnessed(t, map[string]string{"a.txt": "12345", "b.txt": "1234567"}, nil)
	w.p.pull(false)
	w.p.eventually("at rest", w.p.f.Idle)
	w.want(t, "settled fetched ", 2)
	w.want(t, "placed", 12)
	w.want(t, "came", 12)
	w.want(t, "asked", 2)
	if w.of("found description") == 0 {
		t.Errorf("how the set was found is not told: %v", w.told)
	}
	w.p.src.Delete("b.txt")
	w.p.pull(false)
	w.p.eventually("removed", func() bool { return w.of("removed") == 1 })

	// A body that ends before its end, an answer that says no, and bytes that are not those listed.
	w.p.interpose(func(rw http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/cut.txt":
			rw.Header().Set("Content-Length", "5")
			_, _ = rw.Write([]byte("123")) // the server then cuts the connection
		case "/denied.txt":
			http.Error(rw, "no", http.StatusForbidden)
		case "/other.txt":
			_, _ = rw.Write([]byte("xxxxx"))
		default:
			return false
		}
		return true
	})
	for _, name := range []string{"cut.txt", "denied.txt", "other.txt"} {
		w.p.put(name, "12345")
	}
	w.p.pull(false)
	for _, class := range []string{"truncated", "denied", "mismatch"} {
		w.p.eventually(class, func() bool { return w.of("settled failed "+class) > 0 })
	}

	w.p.interpose(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/.resourcesync/capabilitylist.xml" {
			return false
		}
		http.Error(rw, "later", http.StatusServiceUnavailable)
		return true
	})
	w.p.later(WorkPull, w.p.eng.Now())
	w.p.eventually("unread", func() bool { return w.of("unread transient") > 0 })
}

// TestObserverOddDocuments: entries that cannot be read, a Source Description that goes away, and a sweep that is held.
func TestObserverOddDocuments(t *testing.T) {
	t.Parallel()
	w := witnessed(t, many(60), withoutChangeList)
	hide := hideChangeList(w.p.rig)
	w.p.interpose(hide)
	w.p.pull(false)
	w.p.eventually("at rest", w.p.f.Idle)
	for name := range many(60) {
		if name < "d2" && name != "d0/r000.txt" {
			w.p.src.Delete(name)
		}
	}
	w.p.pull(false)
	w.want(t, "held", 39)
	w.p.interpose(func(rw http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/.well-known/") {
			http.Error(rw, "later", http.StatusServiceUnavailable)
			return true
		}
		return hide(rw, r)
	})
	w.p.pull(false)
	w.want(t, "doubted "+destination.DoubtKept, 1)
	w.p.interpose(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/.resourcesync/resourcelist.xml" {
			return hide(rw, r)
		}
		_, _ = fmt.Fprintf(rw, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="resourcelist" at="%s"/><url><lastmod>x</lastmod></url><url><loc>%s/d2/r002.txt</loc></url></urlset>`, "2037-01-01T00:00:00Z", w.p.srv.URL)
		return true
	})
	w.p.pull(true)
	if w.of("skipped") == 0 {
		t.Errorf("an entry without loc is not told of: %v", w.told)
	}
}

// TestObserverMirror: a disk that is full is told of once, and so is that it takes files again; a file that rots is too.
func TestObserverMirror(t *testing.T) {
	t.Parallel()
	var full, odd atomic.Bool
	w := witnessed(t, many(5), func(t *Target) { t.Mirror = flakyMirror{t.Mirror, &full, &odd} })
	w.p.pull(false)
	w.p.eventually("at rest", w.p.f.Idle)
	full.Store(true)
	w.p.put("a.txt", "1")
	w.p.pull(false)
	w.p.eventually("halted", func() bool { return w.of("halted true") == 1 })
	full.Store(false)
	w.p.eventually("resumed", func() bool { return w.of("halted false") == 1 && w.p.same() })
	if w.of("settled failed disk") == 0 {
		t.Errorf("no failure of the disk: %v", w.told)
	}
	if err := os.WriteFile(w.p.path("d0/r000.txt"), []byte("rotten"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 20 { // a small part of the mirror each
		w.p.later(WorkScrub, w.p.eng.Now())
		if w.of("rotten") > 0 {
			break
		}
		w.p.eventually("scrubbed", func() bool {
			var waiting bool
			w.p.locked(func() { _, waiting = w.p.jobs[WorkScrub] })
			return !waiting
		})
	}
	w.p.eventually("rotten", func() bool { return w.of("rotten") == 1 })
	w.p.eventually("mended", w.p.same)
}
