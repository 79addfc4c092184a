package mirror

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/destination"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/store/blob/dir"
	"resyncd/sync/report"
)

// StatusView is the JSON of status (contract.md 3).
type StatusView struct {
	Version string                `json:"version"`
	Sources []report.SourceStatus `json:"sources"`
}

// Status reads one Source, and which of its sets are feeds.
func (op *Opener) Status(ctx context.Context, p *Place) (s report.SourceStatus, feeds map[int64]bool, err error) {
	s = report.SourceStatus{Name: p.Source.Name, URL: p.Source.URL, Sets: []report.SetStatus{}}
	o, err := op.OpenKnown(ctx, p, false)
	if errors.Is(err, store.ErrNotFound) && !p.AdHoc {
		return s, nil, nil
	}
	if err != nil {
		return s, nil, err
	}
	s, err = report.StatusOf(ctx, o.Engine.Store, o.Known)
	s.Expect(p.Expectation(op.Now()))
	if err == nil {
		s.Trouble(o.trouble())
		feeds, err = o.feeds(ctx, &s)
	}
	return s, feeds, errors.Join(err, o.Close())
}

func (o *Opened) feeds(ctx context.Context, s *report.SourceStatus) (map[int64]bool, error) {
	out := map[int64]bool{}
	for i := range s.Sets {
		set := &s.Sets[i]
		is, err := IsFeed(ctx, o.Engine.Store, o.Source.Kind, o.Known.ID, set.CapabilityList)
		if err != nil {
			return nil, err
		}
		out[set.ID] = is
	}
	return out, nil
}

// IsFeed tells whether a set is a feed, as configured or as found.
func IsFeed(ctx context.Context, st store.Documents, kind config.Kind, source int64, set string) (bool, error) {
	if kind == config.KindFeed {
		return true, nil
	}
	doc, err := st.Document(ctx, source, set)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return doc.Kind == string(destination.KindFeed), err
}

// trouble says what no row can: the mirror is not where it was (F12), or the state takes no more rows.
func (o *Opened) trouble() string {
	f, err := o.rootState()
	if err == nil && o.Known.RootID != "" && f.state != dir.Marked {
		err = blob.ErrUnmarked
	}
	if err != nil {
		return fmt.Sprintf("mirror %s: %s", o.Root, exit.Advised(err))
	}
	if room, _, err := dir.Room(filepath.Dir(o.State)); err == nil && room < LeastRoom {
		return fmt.Sprintf("state %s: nothing new can be recorded, its disk is full: make room there", o.State)
	}
	return ""
}

// Expectation is what the configuration holds a Source to; nobody pulls an ad hoc mirror by schedule.
func (p *Place) Expectation(now time.Time) report.Expectation {
	e := report.Expectation{Now: now}
	if !p.AdHoc {
		e.Next, e.Push = p.Source.Schedule.Next, p.Source.Push == config.PushRequired
	}
	return e
}

// LeastRoom is the room on a disk below which no transaction is written.
const LeastRoom = 16 << 10
