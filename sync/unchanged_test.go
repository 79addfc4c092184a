package sync

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestUnchanged: what a run fetched, owes or refuses is not unchanged, however often its lists are read; what was right before
// it counts once.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	type counts struct{ Fetched, Unchanged, Owed, Refused int64 }
	is := func(t *testing.T, res Result, want counts) {
		t.Helper()
		if got := (counts{res.Fetched, res.Unchanged, res.Owed, res.Refused}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for name, bad := range map[string]func(f *fake) string{
		"gone":       func(f *fake) string { return f.entry("/bad", fixity("bad")) },
		"wrong hash": func(f *fake) string { f.page("/bad", "bud"); return f.entry("/bad", fixity("bad")) },
	} {
		for _, changes := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, Change List %t", name, changes), func(t *testing.T) {
				t.Parallel()
				f := newFake(t)
				f.opts.RetryFor = 2 * time.Second
				f.set("resourcelist", "/rl.xml")
				if changes {
					f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
					f.handle("/cl.xml", func(w http.ResponseWriter, _ *http.Request) { // no 304: each reading is a whole one
						fmt.Fprint(w, list("changelist", `from="`+when(0)+`"`, f.changed("/n", "n", "created", 10)))
					})
				}
				entries := append(f.numbered(0, 10), bad(f))
				f.handle("/rl.xml", func(w http.ResponseWriter, _ *http.Request) {
					fmt.Fprint(w, list("resourcelist", `at="`+when(0)+`"`, entries...))
				})
				n := int64(10)
				if changes {
					n++
				}
				is(t, f.one(false), counts{Fetched: n, Owed: 1})
				f.opts.Full = true
				is(t, f.one(false), counts{Unchanged: n, Owed: 1})
				f.page("/bad", "bad")
				is(t, f.one(true), counts{Fetched: 1, Unchanged: n})
				is(t, f.one(true), counts{Unchanged: n + 1})
			})
		}
	}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.set("resourcelist", "/rl.xml")
		outside := `<url><loc>http://elsewhere.example/x</loc></url>`
		f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, append(f.numbered(0, 10), outside)...))
		is(t, f.one(true), counts{Fetched: 10, Refused: 1})
		f.opts.Full = true
		is(t, f.one(true), counts{Unchanged: 10, Refused: 1})
	})
	t.Run("asked conditionally", func(t *testing.T) { // nothing vouches for the body, so what is owed is a question answered by 304
		t.Parallel()
		f := newFake(t)
		f.set("resourcelist", "/rl.xml")
		entry := func(day int) string {
			return f.entry("/x", "", fmt.Sprintf("<lastmod>2026-01-%02dT00:00:00Z</lastmod>", day))
		}
		f.page("/x", "x")
		f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, entry(1)))
		is(t, f.one(true), counts{Fetched: 1})
		f.page("/rl.xml", list("resourcelist", `at="`+when(10)+`"`, entry(2)))
		x := f.pages["/x"]
		f.handle("/x", nil)
		is(t, f.one(false), counts{Owed: 1})
		f.handle("/x", x)
		f.opts.Full = true
		is(t, f.one(true), counts{Unchanged: 1})
	})
}
