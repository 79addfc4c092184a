package sync

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/report"
)

// TestCauses: why a set or a resource fails is kept in the word by which the console says what to do (P12).
func TestCauses(t *testing.T) {
	t.Parallel()
	for want, say := range map[string]http.HandlerFunc{
		fetch.CauseStatus + "503": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		fetch.CauseStatus + "403": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) },
		rsdoc.CausePage:           func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<!DOCTYPE html><html></html>") },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			r := newRigIn(t, ramDir(t), source.Options{}, many(2))
			r.fetch = quick
			r.must()
			r.put("d0/r000.txt", "news")
			r.interpose(func(w http.ResponseWriter, req *http.Request) bool {
				if !strings.Contains(req.URL.Path, "changelist") {
					return false
				}
				say(w, req)
				return true
			})
			if res, err := r.run(); err != nil || res.Problem == "" {
				t.Fatalf("%+v, %v", res, err)
			}
			check := func(want string) {
				t.Helper()
				r.with(func(e *Engine, _ Target) {
					src, err := e.Store.Source(context.Background(), "test")
					if err != nil {
						t.Fatal(err)
					}
					s, err := report.StatusOf(context.Background(), e.Store, &src)
					if err != nil || len(s.Sets) != 1 || s.Sets[0].Cause != want {
						t.Errorf("the cause is %+v, want %s; %v", s.Sets, want, err)
					}
				})
			}
			check(want)
			r.interpose(func(w http.ResponseWriter, req *http.Request) bool {
				if !strings.HasSuffix(req.URL.Path, "r000.txt") {
					return false
				}
				w.WriteHeader(http.StatusForbidden)
				return true
			})
			if _, err := r.run(); err != nil {
				t.Fatal(err)
			}
			check("")
			r.with(func(e *Engine, _ Target) {
				rs, err := e.Store.Scan(context.Background(), store.ScanQuery{SourceID: 1, Filter: store.FilterOwed, Limit: 9})
				if err != nil || len(rs) != 1 || rs[0].Work.Cause != fetch.CauseStatus+"403" {
					t.Errorf("owed: %+v, %v", rs, err)
				}
			})
		})
	}
}
