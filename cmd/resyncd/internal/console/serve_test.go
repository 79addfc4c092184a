package console

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// serving runs Serve on a free port of loopback.
func serving(t *testing.T, h http.Handler) (addr string, stop func() error) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, h, nil) }()
	t.Cleanup(cancel)
	return listener.Addr().String(), func() error { cancel(); return <-ended }
}

func TestServe(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	m.Count(Fetches, "a", "ok", 1)
	addr, stop := serving(t, New(Options{Metrics: m}))
	if code, body := get(t, "http://"+addr+"/healthz"); code != 200 || body != "ok\n" {
		t.Errorf("%d %q", code, body)
	}
	if code, body := get(t, "http://"+addr+"/metrics"); code != 200 || !strings.Contains(body, "resyncd_fetches_total") {
		t.Errorf("%d %q", code, body)
	}
	begin := time.Now()
	if err := stop(); err != nil || time.Since(begin) > stopTime+time.Second {
		t.Errorf("stop: %v after %v", err, time.Since(begin))
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("still listening")
	}
}

func TestServeEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := Serve(ctx, listener, New(Options{}), nil); err != nil {
		t.Error(err)
	}
}

// TestStopInFlight: a request that runs is answered; one that does not end is cut off, and Serve returns after its handler.
func TestStopInFlight(t *testing.T) {
	t.Parallel()
	in := make(chan struct{}, 2)
	gate := make(chan struct{})
	returned := make(chan struct{})
	addr, stop := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in <- struct{}{}
		if r.URL.Path == "/slow" {
			<-gate
			_, _ = io.WriteString(w, "done")
			return
		}
		<-r.Context().Done()
		close(returned)
	}))
	slow := make(chan string, 1)
	go func() { _, body := get(t, "http://"+addr+"/slow"); slow <- body }()
	<-in
	hung, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	if _, err := io.WriteString(hung, "GET /hung HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-in
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	close(gate)
	if body := <-slow; body != "done" {
		t.Errorf("the slow one got %q", body)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	select {
	case <-returned:
	default:
		t.Error("Serve returned before a handler")
	}
}

// TestBrokenListener: it is told, not waited for.
func TestBrokenListener(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := Serve(t.Context(), listener, New(Options{}), nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// TestBytesCutShort: a file that ends before its length was reached is no whole one to the client.
func TestBytesCutShort(t *testing.T) {
	t.Parallel()
	for _, length := range []int64{-1, 9} {
		f := &torn{fake: newFake(time.Now(), ""), length: length}
		addr, stop := serving(t, New(Options{Data: f}))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/source/maps/bytes?uri=x", nil)
		if err != nil {
			t.Fatal(err)
		}
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("length %d: %q is taken for the whole", length, body)
		}
		res.Body.Close()
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

// torn has a file that cannot be read to its end.
type torn struct {
	*fake
	length int64
}

func (f *torn) Open(context.Context, string, string) (io.ReadCloser, FileInfo, error) {
	return io.NopCloser(io.MultiReader(strings.NewReader("half"), failing{})), FileInfo{Name: "x", Length: f.length}, nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the disk fails") }

// TestIdleConnections: connections on which nothing is asked make room for who asks; a supervisor that gets no answer of
// /healthz kills a healthy daemon.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	addr, stop := serving(t, New(Options{}))
	for n := range connections + 10 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if n%2 == 0 {
			if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: "); err != nil {
				t.Fatal(err)
			}
		}
	}
	client := http.Client{Timeout: headerTime / 2, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + addr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Error(res.Status)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
