package console

import (
	"cmp"
	"html/template"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"resyncd/store"
	"resyncd/sync/report"
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

const (
	mostSets, mostGaps, mostOutside = 100, 100, 5 // on a page

	mostURI   = 8 << 10
	bytesTime = 30 * time.Second
)

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

type findPage struct {
	Query string
	Found
}

func (c *console) find(w http.ResponseWriter, r *http.Request, name string) {
	body := findPage{Query: r.URL.Query().Get("q")}
	if len(body.Query) > mostURI {
		say(w, http.StatusRequestURITooLong, "that is too long to look for")
		return
	}
	if body.Query != "" {
		var err error
		if body.Found, err = c.Data.Find(r.Context(), name, body.Query); err != nil {
			c.fail(w, r, "find", err)
			return
		}
	}
	c.show(w, r, http.StatusOK, "find", page{Title: "Search in " + plain(name), Source: name, Body: body})
}

func (c *console) resource(w http.ResponseWriter, r *http.Request, name string) {
	view, err := c.Data.Resource(r.Context(), name, r.URL.Query().Get("uri"))
	if err != nil {
		c.fail(w, r, "resource", err)
		return
	}
	slices.Reverse(view.History) // the later one comes later
	slices.SortStableFunc(view.History, func(a, b report.HistoryLine) int { return b.At.Compare(a.At.Time) })
	p := page{Title: "Resource in " + plain(name), Source: name, Body: view}
	if view.InTrash {
		p.Token = c.token(w, r)
	}
	c.show(w, r, http.StatusOK, "resource", p)
}

// bytes answers with what a stranger wrote: to be saved, never shown as a page of ours.
func (c *console) bytes(w http.ResponseWriter, r *http.Request, name string) {
	ctx, cancel := orEnding(r.Context())
	defer cancel()
	out := newDrip(w, bytesTime)
	from, info, err := c.Data.Open(ctx, name, r.URL.Query().Get("uri"))
	if err != nil {
		c.fail(w, r, "bytes", err)
		return
	}
	defer from.Close()
	h := w.Header()
	h.Set("Content-Type", harmless(info.Type))
	h.Set("Content-Disposition", attachment(info.Name))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	if info.Length >= 0 {
		h.Set("Content-Length", strconv.FormatInt(info.Length, 10))
	}
	if !info.Modified.IsZero() {
		h.Set("Last-Modified", info.Modified.UTC().Format(http.TimeFormat))
	}
	if r.Method == http.MethodHead {
		return
	}
	body := io.Reader(from)
	if info.Length >= 0 {
		body = io.LimitReader(from, info.Length)
	}
	n, err := io.Copy(out, body)
	if (err != nil || info.Length >= 0 && n < info.Length) && !out.gone && ctx.Err() == nil {
		c.Log.Warn("mirrored bytes were cut short", "source", name, "sent", n, "of", info.Length, "err", err)
		panic(http.ErrAbortHandler) // a part is not the whole
	}
}

// harmless has text stay text; all else is bytes.
func harmless(kind string) string {
	if t, _, err := mime.ParseMediaType(kind); err == nil && t == "text/plain" {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// attachment has bytes saved under a name that is one on every system.
func attachment(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Map(func(r rune) rune {
		if unseen(r) || strings.ContainsRune(`/\:*?"<>|%;`, r) {
			return '_'
		}
		return r
	}, name)
	for len(name) > 150 {
		_, n := utf8.DecodeRuneInString(name)
		name = name[n:]
	}
	if strings.Trim(name, ". ") == "" {
		name = "resource"
	}
	if value := mime.FormatMediaType("attachment", map[string]string{"filename": name}); value != "" {
		return value
	}
	return "attachment"
}
