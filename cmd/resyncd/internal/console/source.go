package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"resyncd/store"
	"resyncd/sync/report"
)

// mostSets, mostGaps and mostOutside bound what a page shows.
const mostSets, mostGaps, mostOutside = 100, 100, 5

type sourceBody struct {
	*SourceView
	Chosen       *SetView // nil: no set
	Timeline     *timelineView
	TimelineFail string
	Chart        *chart
	MoreSets     int // beyond those that are shown
	MoreGaps     int // of the chosen set
}

// Fetching reports that all that is owed was not tried yet. That comes and goes with every push, and must not move the
// page.
func (b *sourceBody) Fetching() bool {
	return b.Row.Owed > 0 && b.Row.Owed == int64(len(b.Owed)) &&
		!slices.ContainsFunc(b.Owed, func(r *store.Resource) bool { return r.Work.Attempts > 0 })
}

func (c *console) source(w http.ResponseWriter, r *http.Request, name string) {
	view, err := c.Data.Source(r.Context(), name)
	if err != nil {
		c.fail(w, r, "source", err)
		return
	}
	now := time.Now()
	body := &sourceBody{SourceView: &view, Chart: newChart(now, view.Points)}
	if body.Chosen = chosen(view.Sets, r.URL.Query()); body.Chosen != nil {
		body.TimelineFail = c.timeline(r, now, body)
		if n := len(body.Chosen.Gaps) - mostGaps; n > 0 {
			open := slices.SortedStableFunc(slices.Values(body.Chosen.Gaps), openFirst)
			body.MoreGaps, body.Chosen.Gaps = n, open[:mostGaps]
		}
	}
	if n := len(view.Sets) - mostSets; n > 0 {
		body.MoreSets, view.Sets = n, view.Sets[:mostSets]
	}
	c.show(w, r, http.StatusOK, "source", page{
		Title: plain(view.Name) + ": " + plain(view.State), Now: now, Source: view.Name, Refresh: 60,
		Token: c.token(w, r), Body: body,
	})
}

func openFirst(a, b report.GapStatus) int {
	rank := map[bool]int{true: 0, false: 1}
	return rank[isOpen(&a)] - rank[isOpen(&b)]
}

func (c *console) timeline(r *http.Request, now time.Time, body *sourceBody) string {
	set := body.Chosen
	end := now
	if set.Position.After(end) {
		end = set.Position.Time // a clock ahead
	}
	win := newWindow(r.URL.Query(), set.From, end)
	t, err := c.Data.Timeline(r.Context(), body.Name, set.ID, win.From, win.Until)
	if err != nil {
		c.Log.Warn("cannot show a timeline", "source", body.Name, "set", set.ID, "err", err)
		return err.Error()
	}
	body.Timeline = newTimeline(body.Name, win, now, set, &t)
	return ""
}

// chosen is the set of ?set=, else the first of the worst.
func chosen(sets []SetView, q url.Values) *SetView {
	var worst *SetView
	id, err := strconv.ParseInt(q.Get("set"), 10, 64)
	for i := range sets {
		if err == nil && sets[i].ID == id {
			return &sets[i]
		}
		if worst == nil || sets[i].Level > worst.Level {
			worst = &sets[i]
		}
	}
	return worst
}
