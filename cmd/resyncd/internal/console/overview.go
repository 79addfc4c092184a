package console

import (
	"cmp"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

type overviewPage struct {
	Notices []Finding
	Query   string
	Rows    []*Row
	All     int
	States  []stateCount // the worst first
	Started time.Time

	Owed, Held, Refused, Open, Lost, Resources, Bytes int64
}

type stateCount struct {
	State, Level, Href string
	N                  int
}

type lease struct {
	From  string // for the script
	Ends  string
	Left  template.HTML
	Share string // percent
	Low   bool   // a tenth or less
}

func newLease(now, from, until time.Time) *lease {
	if until.IsZero() {
		return nil
	}
	share := 0.0
	if whole := until.Sub(from); !from.IsZero() && whole > 0 {
		share = 100 * until.Sub(now).Seconds() / whole.Seconds()
	} else if now.Before(until) {
		share = 100 // of what is not known
	}
	l := &lease{Ends: "ends", Left: brief(now, until), Share: percent(share), Low: share <= 10}
	if until.Before(now) {
		l.Ends = "ended"
	}
	if !from.IsZero() {
		l.From = from.UTC().Format(time.RFC3339)
	}
	return l
}

func (c *console) overview(w http.ResponseWriter, r *http.Request) {
	view, err := c.Data.Overview(r.Context())
	if err != nil {
		c.fail(w, r, "overview", err)
		return
	}
	body := newOverview(&view, r.URL.Query().Get("q"))
	c.show(w, r, http.StatusOK, "overview", page{Title: body.title(), Now: view.Now, Refresh: 30, Body: body})
}

// title names what is wrong, for a tab in the background.
func (o *overviewPage) title() string {
	for _, s := range o.States {
		if s.Level == Bad.word() || s.Level == Warn.word() {
			return strconv.Itoa(s.N) + " " + s.State
		}
	}
	return "Sources"
}

func newOverview(view *Overview, query string) *overviewPage {
	if len(query) > 200 {
		query = strings.ToValidUTF8(query[:200], "")
	}
	rows := slices.Clone(view.Rows)
	slices.SortFunc(rows, worstFirst)
	o := &overviewPage{Notices: view.Notices, Query: query, All: len(rows), Started: view.Started,
		Rows: make([]*Row, 0, len(rows))}
	for i := range rows {
		o.add(&rows[i])
	}
	wanted := filter(query, rows)
	for i := range rows {
		if row := &rows[i]; wanted(row) {
			o.Rows = append(o.Rows, row)
		}
	}
	return o
}

// worstFirst orders by name what is as bad, so that rows stand still.
func worstFirst(a, b Row) int {
	return cmp.Or(cmp.Compare(b.Level, a.Level), cmp.Compare(a.Name, b.Name))
}

// add counts a row in the totals, shown or not.
func (o *overviewPage) add(row *Row) {
	o.Owed += row.Owed
	o.Held += row.Held
	o.Refused += row.Refused
	o.Open += row.GapsOpen
	o.Lost += row.GapsLost
	o.Resources += row.Resources
	o.Bytes += row.Bytes
	state := plain(row.State)
	for i := range o.States {
		if s := &o.States[i]; s.State == state && s.Level == row.Level.word() {
			s.N++
			return
		}
	}
	o.States = append(o.States, stateCount{State: state, Level: row.Level.word(), Href: "/?q=" +
		url.QueryEscape(row.State), N: 1})
}

// filter makes a test of a query: a state in full, or words that all occur in what a row shows.
func filter(query string, rows []Row) func(*Row) bool {
	words := strings.Fields(strings.ToLower(query))
	whole := strings.Join(words, " ")
	if slices.ContainsFunc(rows, func(r Row) bool { return strings.EqualFold(r.State, whole) }) {
		return func(r *Row) bool { return strings.EqualFold(r.State, whole) }
	}
	return func(r *Row) bool {
		text := ""
		if len(words) > 0 {
			text = strings.ToLower(strings.Join([]string{r.Name, r.URL, r.State, r.Channel, r.Why}, "\n"))
		}
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	}
}

// sparks are the last day of a Row as its template draws it.
type sparks struct {
	Changes, ChangesSum, ChangesWords string
	Latency, LatencyMean, LatencyWord string
}

func newSparks(row *Row) sparks {
	changes, mean, sum, most := make([]float64, len(row.Hours)), make([]float64, len(row.Hours)), int64(0), int64(0)
	for i, p := range row.Hours {
		changes[i], mean[i] = float64(p.Changes), latency(p)
		sum, most = sum+p.Changes, max(most, p.Changes)
	}
	v := sparks{
		Changes: bars(changes, sparkStep, sparkHeight), ChangesSum: count(sum),
		Latency: line(mean, sparkStep, sparkHeight), LatencyMean: "no push",
		LatencyWord: "nothing was pushed in 24 hours",
	}
	v.ChangesWords = v.ChangesSum + " changes in 24 hours, at most " + count(most) + " in one"
	if m := average(mean); m >= 0 {
		v.LatencyMean = short(m)
		v.LatencyWord = "push latency about " + v.LatencyMean + ", at most " + short(slices.Max(mean)) +
			" an hour"
	}
	return v
}

func fresh(now, at time.Time) template.HTML {
	if at.IsZero() {
		return "not in step"
	}
	return "in step " + brief(now, at)
}
