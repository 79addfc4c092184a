package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"resyncd/cmd/resyncd/internal/term"
	"resyncd/destination/peer/hub"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	syncengine "resyncd/sync"
	"resyncd/sync/report"
)

// The demo's hub loses each demoLoses-th notification, or one after demoLosesAfter, whatever comes first.
const (
	demoLoses      = 20
	demoLosesAfter = 10 * time.Second
)

// demoShow prints what goes on in the demo, and makes its gaps.
type demoShow struct {
	sh *shell

	mu    sync.Mutex
	since int       // notifications since the last lost one
	lost  time.Time // when that was
	found map[int64]time.Time
	quiet bool // nothing is lost before the first came through
}

func newDemoShow(sh *shell) *demoShow {
	return &demoShow{sh: sh, found: map[int64]time.Time{}, quiet: true}
}

func (s *demoShow) line(format string, args ...any) {
	fmt.Fprintf(s.sh.Out, s.sh.Now().UTC().Format("15:04:05.000")+"  "+format+"\n", args...)
}

// tamper is the hub's: it loses a Change Notification now and then, always another one than the last.
func (s *demoShow) tamper(d hub.Delivery) hub.Action {
	if d.Attempt > 0 || !strings.Contains(string(d.Body[:min(len(d.Body), 4096)]),
		string(rsdoc.KindChangeNotification)) {
		return hub.Deliver
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since++
	now := s.sh.Now()
	if s.quiet || s.since < 2 || s.since < demoLoses && now.Sub(s.lost) < demoLosesAfter {
		return hub.Deliver
	}
	s.since, s.lost = 0, now
	s.line("the hub loses notification %d on purpose: a gap", d.Number)
	return hub.Drop
}

// observer tells of notifications, gaps and pulls.
func (s *demoShow) observer() syncengine.Observer {
	return syncengine.Observer{Mirrored: s.mirrored, Gap: s.gap, Pulled: s.pulled}
}

func (s *demoShow) mirrored(m syncengine.Mirrored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quiet {
		s.quiet, s.lost = false, s.sh.Now()
	}
	owed := ""
	if m.Owed > 0 {
		owed = fmt.Sprintf(", %d owed", m.Owed)
	}
	s.line("notification  %d changes mirrored%s, %.1f ms after it came  up to %s", m.Changes, owed,
		float64(m.Took.Microseconds())/1000, report.TimeOf(m.Until))
}

func (s *demoShow) gap(g store.Gap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	began, known := s.found[g.ID]
	switch {
	case g.State.Open() && !known:
		s.found[g.ID] = s.sh.Now()
		s.line("gap found     %s to %s", report.TimeOf(g.From), report.TimeOf(g.Until))
	case g.State == store.GapClosed && g.ClosedBy == "":
		delete(s.found, g.ID)
		s.line("no gap        nothing happened in between, or a pull had told of it")
	case g.State == store.GapClosed:
		delete(s.found, g.ID)
		after := ""
		if known {
			after = fmt.Sprintf(" after %.1f s", s.sh.Now().Sub(began).Seconds())
		}
		s.line("gap closed    by %s%s", g.ClosedBy, after)
	}
}

func (s *demoShow) pulled(r syncengine.Result) {
	if r.Kind == "none" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line("%-12s  %d fetched, %d deleted, %d owed, %d requests, %.0f ms  up to %s", r.Kind, r.Fetched, r.Deleted,
		r.Owed,
		r.Requests, r.Seconds*1000, term.Text(r.Position))
}
