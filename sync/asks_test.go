package sync

import (
	"net/http"
	"testing"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/source"
)

// TestAskedInVain: a resource whose transfer always fails is not asked for by every layer that repeats, as often as it likes: of what
// a run may spend on retries each of its parts gets as many requests as the ledger alone would make (F55).
func TestAskedInVain(t *testing.T) {
	t.Parallel()
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write(make([]byte, 100))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	for name, answer := range map[string]http.HandlerFunc{
		"cut":   cut,
		"fails": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"cut behind a redirect": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/elsewhere" {
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
				return
			}
			cut(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigIn(t, ramDir(t), source.Options{}, many(3))
			r.fetch = fetch.Options{} // with its quick retries
			r.opts.RetryFor = 3 * time.Second
			r.interpose(func(w http.ResponseWriter, req *http.Request) bool {
				if req.URL.Path != "/d0/r000.txt" && req.URL.Path != "/elsewhere" {
					return false
				}
				answer(w, req)
				return true
			})
			res, err := r.run()
			if err != nil || res.Fetched != 2 || res.Owed != 1 {
				t.Errorf("%+v, %v", res, err)
			}
			n := 0
			_, asked := r.asked()
			for _, path := range asked {
				if path == "/d0/r000.txt" {
					n++
				}
			}
			if n < 3 || n > 5 {
				t.Errorf("asked for %d times in 3 s", n)
			}
			r.interpose(nil)
			r.must()
		})
	}
}
