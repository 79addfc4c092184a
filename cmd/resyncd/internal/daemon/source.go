package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"slices"
	"time"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/health"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/report"
)

// at looks a Source up as it stands now: it is read anew. What is read stays out of the board, where it could take the
// place of something newer, or bring a Source back that was forgotten meanwhile.
func (d *Daemon) at(ctx context.Context, name string) (s *health.Standing, e *entry, err error) {
	known, err := d.source(ctx, name)
	src, configured := d.sources.config().Source(name)
	switch {
	case errors.Is(err, console.ErrUnknown) && configured: // nothing of it is known yet
	case err != nil:
		return nil, nil, err
	default:
		e, err = d.board.readOne(ctx, &known, d.board.entry(name))
		if errors.Is(err, store.ErrNotFound) { // forgotten just now
			return nil, nil, console.ErrUnknown
		}
		if err != nil {
			return nil, nil, err
		}
	}
	now := d.o.Now()
	if !configured {
		return &health.Standing{Status: term.Copied(e.status), Now: now, Feeds: e.feeds}, e, nil
	}
	return d.standing(d.sources.config(), &src, e, now, d.board.stateTrouble(now)), e, nil
}

// Source implements console.Data.
func (k *dashboard) Source(ctx context.Context, name string) (console.SourceView, error) {
	s, e, err := k.d.at(ctx, name)
	if err != nil {
		return console.SourceView{}, err
	}
	var packages []console.PackageView
	if r := k.d.sources.named(name); r != nil {
		for _, p := range r.seen.packagesNow(s.Now) {
			packages = append(packages, console.PackageView{URL: p.URL, State: string(p.State),
				Bytes: p.Bytes, Total: p.Total, Used: p.Used, Members: p.Members})
		}
	}
	if e == nil { // never worked on
		return console.SourceView{Row: k.d.row(s, e), Packages: packages}, nil
	}
	if err := k.d.board.triedInVain(ctx, e); err != nil {
		return console.SourceView{}, err
	}
	s.Owed = e.owed
	out, id := console.SourceView{Row: k.d.row(s, e), Packages: packages}, e.known.ID
	if out.Sets, err = k.sets(ctx, s, id); err != nil {
		return out, err
	}
	if out.Events, err = k.d.st.SubscriptionEvents(ctx, id, shownEvents); err != nil {
		return out, err
	}
	if out.Runs, err = k.runs(ctx, s); err != nil {
		return out, err
	}
	for filter, items := range map[store.Filter]*[]*store.Resource{
		store.FilterOwed: &out.Owed, store.FilterHeld: &out.Held, store.FilterRefused: &out.Refusals,
	} {
		*items, err = k.d.st.Scan(ctx, store.ScanQuery{SourceID: id, Filter: filter, Limit: shownItems})
		if err != nil {
			return out, err
		}
	}
	now := store.MicrosOf(s.Now)
	out.Points, err = k.d.st.Points(ctx, id, store.Hour, now-shownDays*24*3600e6, now+1)
	out.Points = append(out.Points, k.d.sampler.waiting(id)) // the chart adds up what lies in one hour
	return out, err
}

func (k *dashboard) sets(ctx context.Context, s *health.Standing, source int64) ([]console.SetView, error) {
	rows, err := k.d.st.Sets(ctx, source)
	if err != nil {
		return nil, err
	}
	var found map[int64]string
	if r := k.d.sources.named(s.Status.Name); r != nil {
		r.seen.note(func() { found = maps.Clone(r.seen.found) })
	}
	var out []console.SetView
	for i := range s.Status.Sets {
		set := &s.Status.Sets[i]
		j := slices.IndexFunc(rows, func(r store.Set) bool { return r.ID == set.ID })
		if j < 0 { // it came just now
			continue
		}
		v := console.SetView{SetStatus: *set, Finding: health.AssessSet(s, set), Found: found[set.ID],
			Feed: s.Feeds[set.ID], From: beginning(set, &rows[j]).Time()}
		v.Gaps = slices.Clone(v.Gaps)
		slices.Reverse(v.Gaps)
		if v.Documents, err = k.documents(ctx, source, set); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// beginning is the first instant that anything is known of.
func beginning(set *report.SetStatus, row *store.Set) store.Micros {
	first := row.Floor
	for _, iv := range slices.Concat(row.Proven, row.Joint) {
		first = store.Earliest(first, iv.From)
	}
	for i := range set.Gaps {
		first = store.Earliest(first, store.MicrosOf(set.Gaps[i].From.Time))
	}
	return first
}

// How much of each kind pages show.
const (
	shownItems  = 50
	shownEvents = 50
	shownRuns   = 20 // of each set
	shownDays   = 30
	shownSpans  = 2000 // of a timeline
	shownHits   = 100  // of a search
)

// runs are those of all sets, newest first.
func (k *dashboard) runs(ctx context.Context, s *health.Standing) ([]console.RunView, error) {
	var out []console.RunView
	for i := range s.Status.Sets {
		set := &s.Status.Sets[i]
		runs, err := k.d.st.Runs(ctx, set.ID, shownRuns)
		if err != nil {
			return nil, err
		}
		for j := range runs {
			out = append(out, console.RunView{Run: runs[j], Set: set.CapabilityList})
		}
	}
	slices.SortStableFunc(out, func(a, b console.RunView) int { return cmp.Compare(b.Started, a.Started) })
	return out[:min(len(out), 2*shownRuns)], nil
}

// documentsMost is how many documents of a set are shown, spansLooked how many pieces of evidence are asked for their
// names.
const documentsMost, spansLooked = 20, 200

// documents are those that a set was last read from: its Capability List, and what its newest evidence names.
func (k *dashboard) documents(ctx context.Context, source int64, set *report.SetStatus) ([]store.Document, error) {
	spans, err := k.d.st.Spans(ctx, set.ID, firstInstant, lastInstant, spansLooked)
	if err != nil {
		return nil, err
	}
	urls := []string{set.CapabilityList}
	for _, s := range slices.Backward(spans) {
		if s.Document != "" && len(urls) < documentsMost && !slices.Contains(urls, s.Document) {
			urls = append(urls, s.Document)
		}
	}
	var out []store.Document
	for _, u := range urls {
		doc, err := k.d.st.Document(ctx, source, u)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read document: %w", err)
		}
		out = append(out, doc)
	}
	return out, nil
}

// firstInstant and lastInstant enclose all that documents may tell of.
const firstInstant, lastInstant = store.Micros(-1) << 61, store.Micros(1) << 61

// Timeline implements console.Data.
func (k *dashboard) Timeline(ctx context.Context, name string, set int64, from, until time.Time) (console.Timeline,
	error) {
	var out console.Timeline
	known, err := k.d.source(ctx, name)
	if err != nil {
		return out, err
	}
	sets, err := k.d.st.Sets(ctx, known.ID)
	if err != nil {
		return out, err
	}
	if !slices.ContainsFunc(sets, func(s store.Set) bool { return s.ID == set }) {
		return out, console.ErrUnknown
	}
	out.Spans, err = k.d.st.Spans(ctx, set, store.MicrosOf(from), store.MicrosOf(until), shownSpans+1)
	if len(out.Spans) > shownSpans {
		out.Cut, out.Spans = true, newestSpans(out.Spans)
	}
	return out, err
}

// newestSpans leaves the one out that ends first.
func newestSpans(spans []store.Span) []store.Span {
	oldest := 0
	for i := range spans {
		if spans[i].Until < spans[oldest].Until {
			oldest = i
		}
	}
	return slices.Delete(spans, oldest, oldest+1)
}

// source is a Source's record.
func (d *Daemon) source(ctx context.Context, name string) (store.Source, error) {
	if !d.listeners.isOpen() {
		return store.Source{}, errStarting
	}
	known, err := d.st.Source(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return known, console.ErrUnknown
	}
	return known, err
}

// Find implements console.Data.
func (k *dashboard) Find(ctx context.Context, name, text string) (console.Found, error) {
	var out console.Found
	known, err := k.d.source(ctx, name)
	if errors.Is(err, console.ErrUnknown) {
		if _, configured := k.d.sources.config().Source(name); configured { // nothing of it is known yet
			return console.Found{Complete: true}, nil
		}
	}
	if err != nil {
		return out, err
	}
	rs, complete, err := k.d.st.Find(ctx, known.ID, text, shownHits)
	out.Complete = complete
	for _, r := range rs {
		out.Items = append(out.Items, report.ListingOf(r))
	}
	return out, err
}

// Resource implements console.Data.
func (k *dashboard) Resource(ctx context.Context, name, uri string) (console.ResourceView, error) {
	out := console.ResourceView{Listing: report.Listing{URI: uri}}
	known, err := k.d.source(ctx, name)
	if err != nil {
		return out, err
	}
	r, err := k.d.st.Resource(ctx, known.ID, uri)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return out, err
	default:
		if out.Listing = report.ListingOf(r); r.Have.State != store.HaveNone {
			out.Fetched = r.Have.Fetched.Time()
		}
	}
	switch _, terr := k.d.st.TrashedOf(ctx, known.ID, uri); {
	case terr == nil:
		out.InTrash = true
	case !errors.Is(terr, store.ErrNotFound):
		return out, terr
	}
	var herr error
	if out.History, herr = report.History(ctx, k.d.st, known.ID, uri); herr != nil {
		return out, herr
	}
	if err != nil && len(out.History) == 0 && !out.InTrash {
		return out, console.ErrUnknown
	}
	return out, nil
}

// Open implements console.Data. The mirror is opened for this one file: what the daemon holds open is its Follower's.
func (k *dashboard) Open(ctx context.Context, name, uri string) (io.ReadCloser, console.FileInfo, error) {
	var info console.FileInfo
	known, err := k.d.source(ctx, name)
	if err != nil {
		return nil, info, err
	}
	src, isThere := k.d.sources.config().Source(name)
	if !isThere {
		return nil, info, errors.New("the Source is not configured any more: where its mirror lies is not known")
	}
	r, err := k.d.st.Resource(ctx, known.ID, uri)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, info, console.ErrUnknown
	case err != nil:
		return nil, info, err
	case r.Have.State == store.HaveNone:
		return nil, info, fmt.Errorf("it is not in the mirror (%w)", console.ErrUnknown)
	}
	o := mirror.Over(k.d.engine, mirror.Configured(k.d.sources.config(), src))
	o.Known = &known
	if err := o.OpenMirror(false); err != nil {
		return nil, info, errors.New(exit.Advised(err))
	}
	f, found, err := o.Target.Mirror.Open(ctx, r.Key)
	if err != nil {
		text := exit.Advised(err)
		if errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrNotRegular) {
			text = "its file is not what it was: `resyncd verify --repair` mends that"
		}
		return nil, info, errors.Join(errors.New(text), o.Close())
	}
	info = console.FileInfo{Name: fileName(r), Type: r.Have.Type, Length: found.Length,
		Modified: r.Have.Version.Until.Time()}
	return &shutting{f, o.Close}, info, nil
}

// shutting closes the mirror with the file.
type shutting struct {
	io.ReadCloser
	also func() error
}

// Close closes both.
func (s *shutting) Close() error { return errors.Join(s.ReadCloser.Close(), s.also()) }

// fileName is what a resource's file is called where it is saved.
func fileName(r *store.Resource) string {
	if u, err := url.Parse(r.URI); err == nil && u.Host != "" {
		if base := path.Base(u.Path); base != "/" && base != "." {
			return base
		}
	}
	return path.Base(r.Key)
}
