package fetch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"resyncd/destination/backoff"
)

func TestMain(m *testing.M) {
	if os.Getenv(apartVariable) != "" {
		apart()
		return
	}
	goleak.VerifyTestMain(m)
}

// loopback is what every test against httptest has to allow.
func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// serve starts a server on loopback and a client that may dial it.
func serve(t testing.TB, o Options, h http.HandlerFunc) (*Client, string) {
	t.Helper()
	srv := httptest.NewServer(h)
	o.Allow = append(o.Allow, loopback()...)
	c := New(o)
	t.Cleanup(srv.Close)
	t.Cleanup(c.Close)
	return c, srv.URL
}

// body reads an answer to its end and closes it.
func readAll(t testing.TB, r *Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Errorf("read body: %v", err)
	}
	if err := r.Body.Close(); err != nil {
		t.Errorf("close body: %v", err)
	}
	return string(b)
}

// wantKind checks that err is an *Error of that kind and returns it.
func wantKind(t testing.TB, err error, kind Kind) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an *Error of kind %v", err, kind)
	}
	if e.Kind != kind {
		t.Fatalf("kind %v (%v), want %v", e.Kind, err, kind)
	}
	return e
}

// memory is a network in memory: everything dialled ends at one server. It works inside a synctest bubble.
type memory struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once

	mu    sync.Mutex
	dials int
	down  bool
}

func newMemory() *memory { return &memory{conns: make(chan net.Conn), done: make(chan struct{})} }

func (m *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	m.mu.Lock()
	m.dials++
	down := m.down
	m.mu.Unlock()
	if down { // a connection takes its time to fail
		if err := backoff.Wait(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	ours, theirs := net.Pipe()
	select {
	case m.conns <- theirs:
		return ours, nil
	case <-m.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *memory) set(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dials
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error { m.once.Do(func() { close(m.done) }); return nil }

func (m *memory) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "memory"} }

// bubble serves h in memory for a test inside a synctest bubble. The client asks http://source.example/.
func bubble(t *testing.T, o Options, h http.HandlerFunc) (*Client, *memory) {
	t.Helper()
	m := newMemory()
	srv := &http.Server{Handler: h} //nolint:gosec // a test server
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(m) })
	c := newClient(o, environment{dial: m.dial})
	t.Cleanup(func() {
		c.Close()
		_ = srv.Close()
		_ = m.Close()
		wg.Wait()
	})
	return c, m
}

const source = "http://source.example/"
