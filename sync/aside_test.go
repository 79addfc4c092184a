package sync

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"resyncd/destination/peer/source"
)

// TestHangingResourcesAreSetAside: resources that hang, be it without an answer or in the midst of a body, and as many as
// there are places, do not keep the others waiting, and are still waited for after them: none is owed (P11, F79). Each is
// asked for no more than twice.
func TestHangingResourcesAreSetAside(t *testing.T) {
	t.Parallel()
	const all, places, hanging = 300, 8, 12
	r := newRig(t, source.Options{}, many(all))
	r.tune = func(t *Target) { t.Concurrency = places }
	var mu sync.Mutex
	healthy, asked := map[string]bool{}, map[string]int{}
	rest := make(chan struct{})
	r.interpose(func(w http.ResponseWriter, req *http.Request) bool {
		if isDocument(req.URL.Path) {
			return false
		}
		var n int
		if _, err := fmt.Sscanf(req.URL.Path[len("/d0/r"):], "%d", &n); err != nil {
			t.Error(err)
		}
		mu.Lock()
		asked[req.URL.Path]++
		if n >= hanging && !healthy[req.URL.Path] {
			if healthy[req.URL.Path] = true; len(healthy) == all-hanging {
				close(rest)
			}
		}
		mu.Unlock()
		if n >= hanging {
			return false
		}
		if n%2 == 0 {
			w.Header().Set("Content-Length", fmt.Sprint(len(fmt.Sprintf("body %d", n))))
			_, _ = w.Write([]byte("bo"))
			_ = http.NewResponseController(w).Flush()
		}
		select {
		case <-rest:
		case <-req.Context().Done():
			return true
		}
		if n%2 == 0 {
			_, _ = fmt.Fprintf(w, "dy %d", n)
			return true
		}
		return false
	})
	if res := r.must(); res.Failed > 0 || res.Fetched != all {
		t.Errorf("%+v", res)
	}
	for path, n := range asked {
		if n > 2 || healthy[path] && n > 1 {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
}
