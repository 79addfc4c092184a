package daemon

import (
	"context"
	"errors"
	"time"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	"resyncd/sync/report"
)

var errStarting = errors.New("the state is being opened")

// status is what `status --json` prints, with what only the daemon knows.
func (d *Daemon) status(ctx context.Context) (mirror.StatusView, error) {
	view := mirror.StatusView{Version: d.o.Build.Version, Sources: []report.SourceStatus{}}
	if !d.listeners.isOpen() {
		return view, errStarting
	}
	for _, src := range d.sources.config().Sources {
		s, _, err := d.at(ctx, src.Name)
		if errors.Is(err, console.ErrUnknown) { // it went just now
			continue
		}
		if err != nil {
			return view, err
		}
		view.Sources = append(view.Sources, term.Status(s.Status))
	}
	return view, nil
}

// gauges is how the Sources stand, for a scrape. What cannot be read is left out.
func (d *Daemon) gauges(ctx context.Context) []console.SourceGauges {
	view, err := d.status(ctx)
	if err != nil {
		return nil
	}
	waiting, err := d.st.InboxShares(ctx)
	if err != nil {
		waiting = nil
	}
	out := make([]console.SourceGauges, len(view.Sources))
	for i := range view.Sources {
		g := &out[i]
		g.SourceStatus = view.Sources[i]
		g.Totals = totalsOf(&g.SourceStatus)
		if r := d.sources.named(g.Name); r != nil {
			if id, err := r.known(); err == nil {
				g.Inbox = waiting[id]
			}
			r.seen.note(func() { g.Halted = r.seen.halted != nil })
		}
	}
	return out
}

// totalsOf sums the sets of a Source up. Where one has no position, or was never pulled, all have none.
func totalsOf(s *report.SourceStatus) (t console.Totals) {
	t.Paused = s.Paused
	behind, unpulled := false, false
	for i := range s.Sets {
		set := &s.Sets[i]
		t.Resources += set.Resources
		t.Bytes += set.Bytes
		t.Owed += set.Owed
		t.Held += set.Held
		t.Refused += set.Refused
		for _, gap := range set.Gaps {
			switch state := store.GapState(gap.State); {
			case state.Open():
				t.GapsOpen++
			case state == store.GapUnprovable:
				t.GapsLost++
			}
		}
		for j := range set.Channels {
			t.LastPush = later(t.LastPush, set.Channels[j].LastDelivery.Time)
		}
		t.Position = earlier(t.Position, set.Position.Time)
		t.LastPull = earlier(t.LastPull, set.LastPull.Time)
		t.NextPull = earlier(t.NextPull, set.NextPull.Time)
		behind = behind || set.Position.IsZero()
		unpulled = unpulled || set.LastPull.IsZero()
	}
	if behind {
		t.Position = time.Time{}
	}
	if unpulled {
		t.LastPull = time.Time{}
	}
	return t
}

// earlier is the earlier of two times of which either may be zero, which is not known.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// later is the later one.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
