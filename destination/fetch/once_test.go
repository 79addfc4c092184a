package fetch

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
)

// TestOnce: whoever keeps a ledger of failures is asked for nothing twice, but for the rest of a large body that was cut.
func TestOnce(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("0123456789abcdef"), 5*resumeProgress/16)
	fails := func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusBadGateway)
		return true
	}
	for name, tc := range map[string]struct {
		src      *flaky
		requests int
		whole    bool
	}{
		"fails":                  {&flaky{content: large, odd: fails}, 1, false},
		"cut":                    {&flaky{content: large, etag: `"a"`, cuts: []int{9}}, 1, false},
		"cut late":               {&flaky{content: large, etag: `"a"`, cuts: []int{resumeProgress, 2 * resumeProgress}}, 3, true},
		"cut late, then early":   {&flaky{content: large, etag: `"a"`, cuts: []int{resumeProgress, 9}}, 2, false},
		"cut late, no range":     {&flaky{content: large, etag: `"a"`, plain: true, cuts: slices.Repeat([]int{resumeProgress}, 9)}, 2, false},
		"cut late, not the same": {&flaky{content: large, cuts: slices.Repeat([]int{resumeProgress}, 9)}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, _ := bubble(t, Options{}, tc.src.ServeHTTP)
				var s sink
				res, err := c.Download(t.Context(), Request{URL: source, Once: true}, &s,
					DownloadOptions{Resume: true, DeclaredLength: int64(len(large))})
				var fe *Error
				if res.Requests != tc.requests || int64(tc.requests) != tc.src.count.Load() || (err == nil) != tc.whole ||
					err != nil && (!errors.As(err, &fe) || fe.Requests != tc.requests) {
					t.Errorf("%d requests, %d counted, %v", res.Requests, tc.src.count.Load(), err)
				}
			})
		})
	}
}
