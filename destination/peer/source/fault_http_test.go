package source

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"resyncd/destination/peer/source/faults"
)

// TestEachFault looks from the other side of a connection.
func TestEachFault(t *testing.T) {
	t.Parallel()
	whole := bytes.Repeat([]byte("0123456789"), 200)
	type result struct {
		status int
		body   []byte
		length int64
		after  string
		err    error
	}
	for name, check := range map[string]func(r result) bool{
		"error5xx": func(r result) bool { return r.status >= 500 && r.err == nil },
		"throttle": func(r result) bool { return r.status == 429 && r.after == "1" },
		"cut":      func(r result) bool { return r.status == 200 && r.err != nil && len(r.body) < len(whole) },
		"cutclose": func(r result) bool {
			return r.status == 200 && r.err == nil && r.length == -1 && len(r.body) > 0 && len(r.body) < len(whole)
		},
		"wrong": func(r result) bool {
			return r.status == 200 && r.err == nil && len(r.body) == len(whole) && !bytes.Equal(r.body, whole)
		},
		"html": func(r result) bool { return r.status == 200 && bytes.Contains(r.body, []byte("<html>")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, prefix := range []string{"", "doc-"} {
				f, err := faults.Parse(prefix + name + "=1")
				if err != nil {
					t.Fatal(err)
				}
				s := newSource(t, Options{Faults: f})
				mustPut(t, s, "a", string(whole))
				server := httptest.NewServer(s.Handler())
				ask := func(path string) (r result) {
					resp, err := server.Client().Get(server.URL + path)
					if err != nil {
						return result{err: err}
					}
					defer resp.Body.Close()
					r.status, r.length, r.after = resp.StatusCode, resp.ContentLength, resp.Header.Get("Retry-After")
					r.body, r.err = io.ReadAll(resp.Body)
					return r
				}
				hit, safe := "/a", "/"+capabilityList
				if prefix != "" {
					hit, safe = safe, hit
				}
				if got := ask(safe); got.status != 200 || got.err != nil || bytes.Contains(got.body, []byte("<html>")) {
					t.Errorf("%s%s: %s is hit: %+v", prefix, name, safe, got)
				}
				got := ask(hit)
				if prefix == "" && !check(got) {
					t.Errorf("%s: %d, %d bytes, %v", name, got.status, len(got.body), got.err)
				}
				if prefix != "" && got.status == 200 && got.err == nil {
					if document := get(t, newSource(t, Options{}), testBase+hit); bytes.Equal(document, got.body) {
						t.Errorf("%s%s: a whole document", prefix, name)
					}
				}
				if code, err := server.Client().Head(server.URL + hit); name == "cut" && (err != nil || code.StatusCode != 200) {
					t.Errorf("HEAD: %v", err)
				}
				server.Close()
			}
		})
	}
}

// TestStallAndSlow watches how a body stops or drips.
func TestStallAndSlow(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"stall=1": 500, "slow=1": 1} {
		f, err := faults.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		s := newSource(t, Options{Faults: f})
		mustPut(t, s, "a", strings.Repeat("x", 1000))
		server := httptest.NewServer(s.Handler())
		resp, err := server.Client().Get(server.URL + "/a")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.ReadFull(resp.Body, make([]byte, want)); n != want || err != nil {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		resp.Body.Close()
		server.CloseClientConnections()
		server.Close()
	}
}

func TestLatencyEndsWithTheRequest(t *testing.T) {
	t.Parallel()
	f, err := faults.Parse("latency=1h")
	if err != nil {
		t.Fatal(err)
	}
	s := newSource(t, Options{Faults: f})
	mustPut(t, s, "a", "1")
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	client := &http.Client{Timeout: 20 * time.Millisecond, Transport: server.Client().Transport}
	if resp, err := client.Get(server.URL + "/a"); err == nil {
		resp.Body.Close()
		t.Error("no wait")
	}
}
