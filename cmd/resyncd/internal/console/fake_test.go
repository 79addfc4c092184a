package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"resyncd/store"
	"resyncd/sync/report"
)

// nasty is what a stranger may send in any place: markup, quotes, a text direction, controls, a broken rune.
const nasty = `<script>alert(1)</script><img src=x onerror=alert(2)>"'>&amp;</title></svg>` + "\u202egnp.exe\u2066\x00\x1b[31m\xff" + `{{.}} javascript:alert(3)`

// nastyAddress is what a stranger may send that is a URL all the same.
const nastyAddress = `https://x.example/<script>alert(1)</script><img src=x onerror=alert(2)>"'>&amp;</title></svg>` + "\u202egnp.exe\u2066"

// fake is Data with one of everything.
type fake struct {
	now   time.Time
	text  string // in every place for a text
	rows  int    // as many Sources; 0: those of sources
	names []string
	fails error

	mu      sync.Mutex
	done    []Action
	answer  func(Action) (string, error)
	changes chan struct{}
}

func newFake(now time.Time, text string) *fake {
	return &fake{now: now, text: text, names: []string{"archive.example", "thesis-store", "maps", "newspapers", "preprints", "museum"}, changes: make(chan struct{})}
}

func (f *fake) words(calm string) string {
	if f.text != "" {
		return f.text
	}
	return calm
}

// address is a URL, which a page shows as it is unless it carries a token.
func (f *fake) address(calm string) string {
	if f.text != "" {
		return nastyAddress
	}
	return calm
}

// row is the i-th Source; the kinds of trouble take turns.
func (f *fake) row(i int) Row {
	name := fmt.Sprintf("source-%03d", i)
	if f.rows == 0 {
		name = f.names[i]
	}
	r := Row{
		Name: name, URL: "https://" + name + ".example/.well-known/resourcesync", Fresh: f.now.Add(-4 * time.Second), Totals: Totals{
			Position: f.now.Add(-7 * time.Second), Resources: 18_250 + int64(i)*977, Bytes: 3_400_000_000 + int64(i)*712_345_678,
			LastPush: f.now.Add(-12 * time.Second), LastPull: f.now.Add(-9 * time.Minute), NextPull: f.now.Add(6 * time.Minute),
		},
		Channel: "active", LeaseFrom: f.now.Add(-70 * time.Hour), LeaseEnds: f.now.Add(170 * time.Hour),
		Finding: Finding{State: "in step", Why: f.words("Everything the Source has told of is here.")},
	}
	for h := range 24 {
		seconds := []float64{.03, .12, -1, .05, .9}[(h/3+i)%5]
		p := store.Point{Changes: int64((h*h*7 + i*13) % 97)}
		if seconds >= 0 {
			p.Pushes, p.Latency = 1, int64(seconds*1e6)
		}
		r.Hours = append(r.Hours, p)
	}
	switch i % 8 {
	case 0:
		r.Level, r.State, r.Channel, r.Owed, r.GapsOpen = Bad, "failing", "lapsed", 0, 1
		r.Why = f.words("The hub has not answered for 3 h and pulls fail: 503 from https://archive.example/changes.xml. Check the Source; tried again in 4 min.")
		r.LeaseEnds = f.now.Add(-2 * time.Hour)
	case 1:
		r.Level, r.State, r.Owed = Warn, "owed", 1_204
		r.Why = f.words("1,204 resources are owed: the hash that the list declares is not that of the bytes. Their Source has to mend its list.")
	case 2:
		r.Level, r.State, r.Held = Warn, "held", 5_112
		r.Why = f.words("A list of the Source misses 5,112 of 18,250 resources; approve the deletion or reject it.")
	case 3:
		r.Level, r.State, r.Position = Busy, "catching up", f.now.Add(-40*time.Minute)
		r.Why = f.words("A pull runs.")
	case 4:
		r.Channel, r.LeaseFrom, r.LeaseEnds, r.LastPush, r.Hours = "none", time.Time{}, time.Time{}, time.Time{}, make([]store.Point, 24)
		r.GapsLost, r.Refused = 2, 31
	case 5:
		r.Level, r.State, r.Paused, r.Why = Busy, "paused", true, f.words("Paused by an operator; resume it here or with `resyncd source resume`.")
	}
	return r
}

func (f *fake) Overview(ctx context.Context) (Overview, error) {
	o := Overview{Now: f.now, Started: f.now.Add(-50 * time.Hour)}
	for i := range max(f.rows, len(f.names)*min(1, 1-min(1, f.rows))) {
		o.Rows = append(o.Rows, f.row(i))
	}
	if f.text != "" {
		o.Notices = []Finding{{Level: Bad, Why: f.text}}
	}
	return o, errors.Join(f.fails, ctx.Err())
}

func (f *fake) index(name string) (int, error) {
	for i := range max(f.rows, len(f.names)) {
		if f.row(i).Name == name {
			return i, f.fails
		}
	}
	return 0, ErrUnknown
}

func (f *fake) gaps(bad bool) []report.GapStatus {
	at := func(d time.Duration) report.Time { return report.Time{Time: f.now.Add(-d)} }
	gaps := []report.GapStatus{
		{From: at(47 * time.Minute), Until: at(40 * time.Minute), Found: at(39 * time.Minute), Ended: at(38 * time.Minute), State: "closed", ClosedBy: new("change-list")},
		{From: at(2 * time.Hour), Until: at(119 * time.Minute), Found: at(118 * time.Minute), Ended: at(118 * time.Minute), State: "closed", ClosedBy: new("notification")},
		{From: at(9 * time.Hour), Until: at(7 * time.Hour), Found: at(7 * time.Hour), Ended: at(6 * time.Hour), State: "closed", ClosedBy: new("archive")},
		{From: at(50 * time.Hour), Until: at(46 * time.Hour), Found: at(45 * time.Hour), Ended: at(45 * time.Hour), State: "unprovable"},
	}
	if bad {
		gaps = append([]report.GapStatus{{From: at(14 * time.Minute), Until: at(6 * time.Minute), Found: at(6 * time.Minute), State: "lagging"}}, gaps...)
	}
	return gaps
}

func (f *fake) Source(ctx context.Context, name string) (SourceView, error) {
	i, err := f.index(name)
	if err != nil {
		return SourceView{}, err
	}
	row := f.row(i)
	v := SourceView{Row: row}
	now := store.MicrosOf(f.now)
	ago := func(d time.Duration) store.Micros { return store.MicrosOf(f.now.Add(-d)) }
	for s := range 2 {
		set := SetView{
			Found: f.words("well-known"), Finding: Finding{Level: row.Level, State: row.State, Why: f.words("")}, From: f.now.Add(-80 * 24 * time.Hour),
			SetStatus: report.SetStatus{
				ID: int64(10 + s), CapabilityList: f.address(fmt.Sprintf("https://%s.example/set%d/capabilitylist.xml", name, s)), Baselines: 1,
				Proven: report.TimeOf(ago(9 * time.Minute)), Position: report.Time{Time: row.Position}, Resources: row.Resources / 2, Bytes: row.Bytes / 2,
				LastPull: report.Time{Time: row.LastPull}, NextPull: report.Time{Time: row.NextPull},
			},
		}
		if s == 0 {
			set.Gaps = f.gaps(row.GapsOpen > 0)
			if row.GapsOpen > 0 {
				set.Position, set.Proven = report.TimeOf(ago(14*time.Minute)), report.TimeOf(ago(31*time.Minute))
			}
		} else {
			set.Level, set.State = Good, "in step"
		}
		for d, kind := range []string{"Source Description", "Capability List", "Resource List", "Change List", "Change List Archive"} {
			set.Documents = append(set.Documents, store.Document{
				URL: f.address(fmt.Sprintf("https://%s.example/set%d/document-%d.xml", name, s, d)), Kind: f.words(kind), From: ago(5 * time.Hour), Until: ago(time.Hour), Entries: 1200, Read: ago(9 * time.Minute),
			})
		}
		if row.Channel != "none" {
			set.Channels = []report.ChannelStatus{{
				Kind: "change", Topic: f.address("https://" + name + ".example/set/changes.xml"), Hub: f.address("https://hub.example/"), State: row.Channel,
				Reason: new(f.words("asked again in 4 min")), VerifiedAt: report.Time{Time: row.LeaseFrom}, ExpiresAt: report.Time{Time: row.LeaseEnds},
				RenewAt: report.TimeOf(ago(-80 * time.Hour)), LastDelivery: report.Time{Time: row.LastPush}, Delivered: 12_345, Duplicates: 7, PushMisses: int64(i),
				Rejected: 4, RejectedBy: report.RejectedStatus{Signature: 3, Malformed: 1},
			}}
		}
		v.Sets = append(v.Sets, set)
	}
	for e, to := range []store.SubscriptionState{"lapsed", "denied", "active", "renewing", "active", "pending", "requesting"} {
		v.Events = append(v.Events, store.SubscriptionEvent{
			At: ago(time.Duration(e+1) * 3 * time.Hour), Kind: "change", Topic: "t", Hub: f.address("https://hub.example/"), From: "active", To: to,
			Reason: f.words([]string{"the lease ended", "the hub said: too many subscribers", "", ""}[min(e, 3)]), Lease: []int64{0, 0, 240 * 3600, 0}[min(e, 3)],
		})
	}
	for n := range 12 {
		started := ago(time.Duration(n*15+9) * time.Minute)
		run := RunView{Set: v.Sets[n%2].CapabilityList, Run: store.Run{
			Kind: []string{"none", "incremental", "baseline"}[n%3], Started: started, Ended: started + store.Micros(n*n+1)*130e3,
			Fetched: int64(n * 3), Unchanged: int64(n), Bytes: int64(n) * 99_999, Requests: int64(n + 2),
		}}
		if n == 0 && row.Level == Bad {
			run.Problem, run.Failed = f.words("read https://archive.example/changes.xml: 503 Service Unavailable"), 1
		}
		v.Runs = append(v.Runs, run)
	}
	item := func(n int, owed, refused string) *store.Resource {
		return &store.Resource{
			URI:   f.words(fmt.Sprintf("https://%s.example/resources/2026/%05d.pdf?version=2&part=b", name, n)),
			Work:  store.Work{Reason: owed, Attempts: n % 9, Due: ago(-time.Duration(n) * time.Minute), Since: ago(time.Duration(n) * time.Hour)},
			Wants: []store.Want{{Refused: refused}},
		}
	}
	for n := range min(row.Owed, 20) {
		v.Owed = append(v.Owed, item(int(n), f.words("the bytes have sha-256 3f21…, the list says 9c00…"), ""))
	}
	for n := range min(row.Held, 20) {
		v.Held = append(v.Held, item(int(n), "", ""))
	}
	for n := range min(row.Refused, 20) {
		v.Refusals = append(v.Refusals, item(int(n), "", f.words("outside of the scope")))
	}
	for h := range 30 * 24 {
		p := store.Point{
			At: ago(time.Duration(h)*time.Hour) - now%3600e6, Changes: int64((h*h*31 + i) % 211), Bytes: 1 << 20, Failed: int64(max(0, h%90-84)),
			Pushes: int64(h % 5), Latency: int64(h%5) * int64(h%17) * 50_000, LatencyMost: int64(h%29) * 1_000_000 / 3,
		}
		v.Points = append(v.Points, p)
	}
	if row.Level == Busy {
		at := f.address("https://dumps.example/2026/part-00002.zip")
		v.Packages = []PackageView{
			{URL: at, Bytes: 120 << 20, Total: 300 << 20, State: "coming"},
			{URL: at + "?token=hunter2", Bytes: 3 << 20, Total: 3 << 20, Used: 410, Members: 1000, State: "in use"},
			{URL: "https://dumps.example/1.zip", Total: -1, State: "failed"},
			{URL: "https://dumps.example/3.zip", Bytes: 5, Total: -1, State: "coming"},
		}
	}
	return v, ctx.Err()
}

func (f *fake) Timeline(_ context.Context, name string, _ int64, from, until time.Time) (Timeline, error) {
	i, err := f.index(name)
	if err != nil {
		return Timeline{}, err
	}
	var t Timeline
	gaps := f.gaps(f.row(i).GapsOpen > 0)
	add := func(s store.Span) {
		inGap := false
		for _, g := range gaps {
			inGap = inGap || s.Kind == store.SpanNotification && s.Until.Time().After(g.From.Time) && s.From.Time().Before(g.Until.Time)
		}
		if !inGap && !s.Until.Time().Before(from) && !s.From.Time().After(until) {
			s.Last = s.Until + 2e6
			t.Spans = append(t.Spans, s)
		}
	}
	ago := func(d time.Duration) store.Micros { return store.MicrosOf(f.now.Add(-d)) }
	for m := range 4 * 24 * 60 {
		at := time.Duration(m) * time.Minute
		add(store.Span{Kind: store.SpanNotification, From: ago(at + time.Minute), Until: ago(at), Count: 1, Entries: int64(m%9 + 1)})
	}
	for h := range 60 {
		at := time.Duration(h)*4*time.Hour + 31*time.Minute
		add(store.Span{Kind: store.SpanChangeList, From: ago(at + 4*time.Hour), Until: ago(at), Count: 1, Entries: 300, Document: f.address(fmt.Sprintf("https://%s.example/changes-%d.xml", name, h))})
	}
	for d := range 20 {
		at := time.Duration(d)*3*24*time.Hour + 6*time.Hour
		add(store.Span{Kind: store.SpanArchive, From: ago(at + 72*time.Hour), Until: ago(at), Count: 1, Entries: 9000, Document: f.address("https://x.example/archive.xml")})
	}
	add(store.Span{Kind: store.SpanBaseline, From: store.NoTime, Until: ago(11 * time.Hour), Count: 1, Entries: 18250, Document: f.address("https://x.example/resourcelist.xml")})
	add(store.Span{Kind: store.SpanBaseline, From: store.NoTime, Until: ago(79 * 24 * time.Hour), Count: 1, Entries: 18000, Document: f.address("https://x.example/resourcelist.xml")})
	return t, nil
}

func (f *fake) hit(n int) report.Listing {
	meta, err := json.Marshal(map[string]string{"title": f.words("A map of the harbour")})
	if err != nil {
		panic(err)
	}
	return report.Listing{
		URI: f.words(fmt.Sprintf("https://a.example/resources/%d.pdf?a=1&b=2", n)), State: f.words("present"), Type: new(f.words("application/pdf")),
		Meta: meta, Length: new(int64(1 << 20)), Changed: report.Time{Time: f.now.Add(-30 * time.Hour)},
	}
}

func (f *fake) Find(_ context.Context, name, text string) (Found, error) {
	if _, err := f.index(name); err != nil {
		return Found{}, err
	}
	if text == "nothing" {
		return Found{Complete: true}, nil
	}
	found := Found{}
	for n := range 9 {
		found.Items = append(found.Items, f.hit(n))
	}
	return found, nil
}

func (f *fake) Resource(_ context.Context, name, uri string) (ResourceView, error) {
	if _, err := f.index(name); err != nil || uri == "" {
		return ResourceView{}, ErrUnknown
	}
	v := ResourceView{Listing: f.hit(1), Fetched: f.now.Add(-29 * time.Hour), InTrash: true}
	v.URI, v.Key, v.SHA256 = uri, new(f.words("a.example/resources/1.pdf")), new(strings.Repeat("0123456789abcdef", 4))
	v.Reason = new(f.words("moved to the trash by the list of 21 November"))
	link := func(rel, href, typ, profile, modified string) {
		l := report.Link{Rel: f.words(rel), Href: f.address(href), Type: new(f.words(typ)), Profile: new(f.address(profile)), Modified: new(f.words(modified))}
		for _, text := range []**string{&l.Type, &l.Profile, &l.Modified} {
			if **text == "" {
				*text = nil
			}
		}
		v.Links = append(v.Links, l)
	}
	link("collection", "urn:x-theses:1902", "", "", "")
	link("describedby", "https://a.example/1.dc", "application/xml", "http://purl.org/dc/elements/1.1/", "2026-01-02T03:00:00Z")
	link("duplicate", "https://cdn.example/1.pdf", "", "", "2026-01-02T03:00:00Z")
	link("duplicate", "gsiftp://old.example/1.pdf", "", "", "")
	link("alternate", "https://a.example/1.html", "text/html", "", "")
	link("http://www.openarchives.org/rs/terms/patch", "https://a.example/1.patch", "application/json-patch+json", "", "")
	link("via", "http://origin.example/1.pdf", "", "", "2026-01-01T00:00:00Z")
	link("x", "javascript:alert(1)", "", "", "")
	link("x", "https://a.example/1?token=hunter2", "", "", "")
	for n, what := range []string{"deleted", "fetched", "wanted", "fetched", "wanted"} {
		at := func(unit time.Duration) report.Time { return report.Time{Time: f.now.Add(-time.Duration(n) * unit)} }
		v.History = append(v.History, report.HistoryLine{
			At: at(7 * time.Hour), What: f.words(what), Detail: new(f.words("1,048,576 bytes, sha-256 as declared")),
			Evidence: new(f.address("https://a.example/changes.xml")), Version: at(8 * time.Hour),
		})
	}
	return v, nil
}

func (f *fake) Open(_ context.Context, name, uri string) (io.ReadCloser, FileInfo, error) {
	if _, err := f.index(name); err != nil || uri == "" {
		return nil, FileInfo{}, ErrUnknown
	}
	body := "<!doctype html><script>alert(1)</script>"
	return io.NopCloser(strings.NewReader(body)), FileInfo{Name: f.words("page.html"), Type: "text/html", Length: int64(len(body)), Modified: f.now}, nil
}

func (f *fake) Do(ctx context.Context, a Action) (string, error) {
	f.mu.Lock()
	f.done = append(f.done, a)
	f.mu.Unlock()
	if f.answer != nil {
		return f.answer(a)
	}
	return f.words("Asked for; it runs."), ctx.Err()
}

func (f *fake) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes
}

func (f *fake) change() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.changes)
	f.changes = make(chan struct{})
}

func (f *fake) asked() []Action {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Action(nil), f.done...)
}

// still has its overview at hand.
type still struct {
	*fake
	view Overview
}

func (s *still) Overview(context.Context) (Overview, error) { return s.view, nil }
