package daemon

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/health"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	"resyncd/sync/report"
)

// at looks a Source up as it stands now: it is read anew. What is read stays out of the board, where it could take the
// place of something newer, or bring a Source back that was forgotten meanwhile.
func (k *dashboard) at(ctx context.Context, name string) (s *health.Standing, e *entry, err error) {
	d := k.d
	if !d.listeners.isOpen() {
		return nil, nil, errStarting
	}
	known, err := d.st.Source(ctx, name)
	src, configured := d.sources.config().Source(name)
	switch {
	case errors.Is(err, store.ErrNotFound) && !configured:
		return nil, nil, console.ErrUnknown
	case errors.Is(err, store.ErrNotFound):
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
	s, e, err := k.at(ctx, name)
	if err != nil {
		return console.SourceView{}, err
	}
	out := console.SourceView{Row: k.d.row(s, e)}
	if e == nil { // never worked on
		return out, nil
	}
	id := e.known.ID
	if out.Sets, err = k.sets(ctx, s, id); err != nil {
		return out, err
	}
	if out.Events, err = k.events(ctx, id); err != nil {
		return out, err
	}
	if out.Runs, err = k.runs(ctx, s); err != nil {
		return out, err
	}
	for filter, items := range map[store.Filter]*[]console.Item{
		store.FilterOwed: &out.Owed, store.FilterHeld: &out.Held, store.FilterRefused: &out.Refusals,
	} {
		if *items, err = k.items(ctx, id, filter); err != nil {
			return out, err
		}
	}
	now := store.MicrosOf(s.Now)
	points, err := k.d.st.Points(ctx, id, store.Hour, now-shownDays*24*3600e6, now+1)
	points = append(points, k.d.sampler.waiting(id)) // the chart adds up what lies in one hour
	for i := range points {
		out.Points = append(out.Points, pointOf(&points[i]))
	}
	return out, err
}

func (k *dashboard) sets(ctx context.Context, s *health.Standing, source int64) ([]console.SetView, error) {
	rows, err := k.d.st.Sets(ctx, source)
	if err != nil {
		return nil, err
	}
	subs, err := k.d.st.Subscriptions(ctx, source, false)
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
		v := setPage(s, set, &rows[j])
		v.Found = foundWords(found[set.ID])
		for n := range subs {
			if subs[n].SetID == set.ID {
				v.Channels = append(v.Channels, channelPage(&subs[n]))
			}
		}
		if v.Documents, err = k.documents(ctx, source, set); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func setPage(s *health.Standing, set *report.SetStatus, row *store.Set) console.SetView {
	f := health.AssessSet(s, set)
	v := console.SetView{
		ID: set.ID, CapabilityList: term.URL(set.CapabilityList), Level: f.Level, State: f.State,
		Why: logging.Redact(f.Why), Totals: totalsOf([]report.SetStatus{*set}), Proven: set.Proven.Time,
		Baselines: set.Baselines, From: beginning(set, row).Time(),
	}
	for i := range slices.Backward(set.Gaps) {
		v.Gaps = append(v.Gaps, gapView(&set.Gaps[i], s.Feeds[set.ID]))
	}
	return v
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

// foundWords says how a set was discovered.
func foundWords(how string) string {
	return cmp.Or(map[string]string{
		"given": "by the address in the configuration", "well-known": "by /.well-known/resourcesync",
		"link-header": "by a Link header",
		"html-link":   "by a link in a page", "robots": "by robots.txt", "description": "by the Source Description",
		"up": "by a link from one of its documents", "index": "by an index",
	}[how], how)
}
