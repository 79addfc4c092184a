package callback

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/store"
	"resyncd/store/sqlite"
)

// BenchmarkAcknowledge: durable acknowledgements with 32 posters on loopback (goal 10 of performance.md), beside the same with a
// transaction each that SQLite itself makes durable (synchronous=FULL, the reference of that goal), with one each through our
// own sync of the log, and with nothing kept at all. The load shares the cores, and the heap, which is collected at 12 MiB as
// that of the daemon is.
func BenchmarkAcknowledge(b *testing.B) {
	const posters = 32
	defer debug.SetGCPercent(debug.SetGCPercent(300))
	real := func(b *testing.B) Store {
		s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "state.db"), sqlite.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		if err := subscribe(b.Context(), s); err != nil {
			b.Fatal(err)
		}
		return s
	}
	for _, bm := range []struct {
		name    string
		store   func(b *testing.B) Store
		handler func(c *Callback, s Store) http.Handler
	}{
		{"group", real, func(c *Callback, _ Store) http.Handler { return c }},
		{"full", func(b *testing.B) Store { return newFullStore(b) }, oneEach},
		{"each", real, oneEach},
		{"answer", func(*testing.B) Store { return newFakeStore() }, func(*Callback, Store) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			s := bm.store(b)
			counted := &batches{Store: s}
			c := New(Options{Store: counted, Keeper: &fakeKeeper{}, BasePath: "/cb", limits: limits{inboxDeliveries: 1 << 40, inboxBytes: 1 << 40}})
			c.SetReady(true)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(b.Context())
			var running, load sync.WaitGroup
			running.Go(func() { _ = c.Run(ctx) })
			running.Go(func() { _ = Serve(ctx, ServerOptions{Listener: l, Handler: bm.handler(c, s)}) })
			var left atomic.Int64
			left.Store(int64(b.N))
			took := make([][]time.Duration, posters)
			b.ResetTimer()
			for p := range posters {
				load.Go(func() {
					hub, err := dial(l.Addr())
					if err != nil {
						b.Error(err)
						return
					}
					defer hub.Close()
					for n := left.Add(-1); n >= 0; n = left.Add(-1) {
						body := change("2026-01-01T00:00:10Z", "2026-01-01T00:00:20Z") + fmt.Sprintf("<!-- %d %0500d -->", n, 0)
						began := time.Now()
						if status, err := hub.post("/cb/"+tokenOf, body); err != nil || status/100 != 2 {
							b.Errorf("%v, %v", status, err)
							return
						}
						took[p] = append(took[p], time.Since(began))
					}
				})
			}
			load.Wait()
			b.StopTimer()
			all := slices.Concat(took...)
			slices.Sort(all)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acks/s")
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
			if n := counted.n.Load(); n > 0 {
				b.ReportMetric(float64(b.N)/float64(n), "acks/commit")
			}
			stop()
			running.Wait()
		})
	}
}

// wire is a hub's connection that costs next to nothing, since it shares the cores with what is measured: net/http's client
// took two thirds of the time of an answer that keeps nothing, and so hid what keeping costs.
type wire struct {
	net.Conn
	answers *bufio.Reader
	out     []byte
}

func dial(to net.Addr) (*wire, error) {
	c, err := net.Dial(to.Network(), to.String())
	if err != nil {
		return nil, err
	}
	return &wire{c, bufio.NewReader(c), nil}, nil
}

func (w *wire) post(path, body string) (status int, err error) {
	w.out = fmt.Appendf(w.out[:0], "POST %s HTTP/1.1\r\nHost: callback.example\r\nContent-Type: application/xml\r\nContent-Length: %d\r\nX-Hub-Signature: %s\r\n\r\n%s",
		path, len(body), sign(body), body)
	if _, err := w.Write(w.out); err != nil {
		return 0, err
	}
	for first := true; ; first = false {
		line, err := w.answers.ReadSlice('\n')
		switch {
		case err != nil:
			return 0, err
		case first:
			if _, err := fmt.Sscanf(string(line), "HTTP/1.1 %d", &status); err != nil {
				return 0, err
			}
		case len(line) == 2:
			return status, nil
		case bytes.HasPrefix(line, []byte("Content-Length:")) && !bytes.Equal(line, []byte("Content-Length: 0\r\n")):
			return 0, fmt.Errorf("an answer with a body: %d, %s", status, line)
		}
	}
}

// oneEach answers as Callback does, with a transaction and a sync of its own for each notification: one after another, because
// the Store shares a sync among all who wait for one.
func oneEach(c *Callback, s Store) http.Handler {
	var turn sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sub, err := c.subs.find(r.Context(), tokenOf)
		if err == nil {
			var d *store.Delivery
			l := c.memory.reserve(sub.ID)
			defer l.release()
			if d, _, err = c.receive(r.Context(), w, r, sub, l); err == nil {
				turn.Lock()
				err = s.Deliver(r.Context(), []*store.Delivery{d}, nil)
				turn.Unlock()
			}
		}
		if err != nil {
			write(w, http.StatusServiceUnavailable)
			return
		}
		write(w, http.StatusOK)
	})
}

// fullStore keeps each delivery in a transaction of its own, which SQLite syncs.
type fullStore struct {
	*fakeStore
	db *sql.DB
}

func newFullStore(b *testing.B) *fullStore {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "state.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	b.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(b.Context(), "CREATE TABLE delivery (id INTEGER PRIMARY KEY, subscription, received, body)"); err != nil {
		b.Fatal(err)
	}
	return &fullStore{newFakeStore(), db}
}

func (s *fullStore) Deliver(ctx context.Context, ds []*store.Delivery, _ func()) error {
	_, err := s.db.ExecContext(ctx, "INSERT INTO delivery (subscription, received, body) VALUES (?, ?, ?)",
		ds[0].SubscriptionID, int64(ds[0].Received), ds[0].Body)
	return err
}

// batches counts commits.
type batches struct {
	Store
	n atomic.Int64
}

func (b *batches) Deliver(ctx context.Context, ds []*store.Delivery, readable func()) error {
	b.n.Add(1)
	return b.Store.Deliver(ctx, ds, readable)
}
