package source

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseFaults(t *testing.T) {
	t.Parallel()
	got, err := ParseFaults("latency=20ms, error5xx=0.05,throttle=0.1,retry-after=3,cut=1,doc-html=0.5,doc-slow=100,seed=7")
	if err != nil {
		t.Fatal(err)
	}
	want := &Faults{
		Seed:      7,
		Resources: FaultSet{Latency: 20 * time.Millisecond, RetryAfter: 3 * time.Second, Error5xx: 0.05, Throttle: 0.1, Cut: 1},
		Documents: FaultSet{RetryAfter: time.Second, HTML: 0.5, Slow: 100},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Faults{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if f, err := ParseFaults(""); f != nil || err != nil {
		t.Errorf("nothing: %v, %v", f, err)
	}
	for _, bad := range []string{
		"cut", "cut=2", "cut=-1", "cut=NaN", "cut=x", "latency=5", "latency=-1s", "slow=0", "nothing=1", "doc-seed=1", "seed=-1",
		"retry-after=-1", "cut=0.1,,", "doc-doc-cut=1",
	} {
		if _, err := ParseFaults(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestFaultsAreDeterministic asks twice for the same history.
func TestFaultsAreDeterministic(t *testing.T) {
	t.Parallel()
	history := func(seed int, order []string) map[string]string {
		f, err := ParseFaults(fmt.Sprintf("error5xx=0.3,throttle=0.3,seed=%d", seed))
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for range 30 {
			for _, path := range order {
				kind, _ := f.choose(&f.Resources, path)
				out[path] += fmt.Sprint(int(kind))
			}
		}
		return out
	}
	one, two := history(1, []string{"/a", "/b"}), history(1, []string{"/b", "/a"})
	if diff := cmp.Diff(one, two); diff != "" {
		t.Errorf("the order of requests matters:\n%s", diff)
	}
	if cmp.Equal(one, history(2, []string{"/a", "/b"})) {
		t.Error("the seed does not matter")
	}
	all := one["/a"] + one["/b"]
	for _, kind := range "012" {
		if n := strings.Count(all, string(kind)); n < 8 || n > 40 {
			t.Errorf("fault %c %d times in 60: %s", kind, n, all)
		}
	}
}

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
				f, err := ParseFaults(prefix + name + "=1")
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
		f, err := ParseFaults(name)
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
	f, err := ParseFaults("latency=1h")
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
