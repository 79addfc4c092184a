package console

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"resyncd/store"
	"resyncd/sync/report"
)

// TestFetching: what is owed moves below the timeline only where all of it is shown and none of it has failed yet.
func TestFetching(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		owed []*store.Resource
		all  int64
		want bool
	}{
		"nothing":              {nil, 0, false},
		"under way":            {[]*store.Resource{{URI: "a"}, {URI: "b"}}, 2, true},
		"one was tried":        {[]*store.Resource{{URI: "a"}, {URI: "b", Work: store.Work{Attempts: 1}}}, 2, false},
		"more than are listed": {[]*store.Resource{{URI: "a"}}, 2, false},
	} {
		body := sourceBody{SourceView: &SourceView{Row: Row{Totals: Totals{Owed: c.all}}, Owed: c.owed}}
		if got := body.Fetching(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestPackages: those in flight are a table, by the last part of their addresses, whose tokens nobody sees; without any
// there is none.
func TestPackages(t *testing.T) {
	t.Parallel()
	h := New(Options{Data: newFake(time.Now(), "")})
	page := ask(h, http.MethodGet, "/source/newspapers").Body.String()
	_, table, _ := strings.Cut(page, `id="packages"`)
	table, _, _ = strings.Cut(table, "</section>")
	for _, want := range []string{
		`title="https://dumps.example/2026/part-00002.zip"><bdi dir="ltr">part-00002.zip</bdi>`,
		`120 MiB of 300 MiB <progress value="125829120" max="314572800"`, "410 of 1,000", "failed: its resources", "5 B</td>",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("the page does not say %q: %s", want, table)
		}
	}
	if n := strings.Count(table, "<progress"); n != 2 || strings.Contains(page, "hunter2") {
		t.Errorf("%d bars: %s", n, table)
	}
	if page := ask(h, http.MethodGet, "/source/maps").Body.String(); strings.Contains(page, "packages") {
		t.Error("a Source without packages has a table of them")
	}
}

// holed has a set full of holes, as a hub leaves them that loses every other notification of thousands.
type holed struct{ *fake }

func (h holed) Source(ctx context.Context, name string) (SourceView, error) {
	v, err := h.fake.Source(ctx, name)
	for i := range v.Sets {
		v.Sets[i].Gaps = nil
		for n := range 6000 {
			from := h.now.Add(-time.Duration(n) * time.Minute)
			g := report.GapStatus{From: report.Time{Time: from}, Until: report.Time{Time: from.Add(time.Second)}, Found: report.Time{Time: h.now}, State: "waiting"}
			if n < 5000 {
				g.State, g.Ended = "closed", report.Time{Time: h.now}
			}
			v.Sets[i].Gaps = append(v.Sets[i].Gaps, g)
		}
	}
	return v, err
}

// TestManyGaps: a page stays one that can be read, however many gaps a hub's losses leave, and shows the open ones first.
func TestManyGaps(t *testing.T) {
	t.Parallel()
	w := ask(New(Options{Data: holed{newFake(time.Now(), "")}}), http.MethodGet, "/source/maps")
	page := w.Body.String()
	if len(page) > 200<<10 {
		t.Errorf("%d bytes", len(page))
	}
	for _, want := range []string{"5900 more gaps are not shown", "995 more open gaps"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if n := strings.Count(page, "<bdi>waiting</bdi>"); n != mostGaps {
		t.Errorf("%d open gaps are listed", n)
	}
}
