package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/store"
	"resyncd/sync/queue"
	"resyncd/sync/report"
)

// TestUnsureStateEnds: what only opening the database anew can mend ends the daemon (F10), and nothing else does.
func TestUnsureStateEnds(t *testing.T) {
	t.Parallel()
	d := idle(t)
	for _, err := range []error{store.ErrFull, store.ErrDisk} {
		d.stateFailed(fmt.Errorf("record a step: %w", err))
	}
	if len(d.parts.failed) != 0 {
		t.Errorf("the daemon ends: %v", <-d.parts.failed)
	}
	for range 2 { // the first one counts, and nobody waits
		d.stateFailed(fmt.Errorf("record a step: %w", store.ErrUnsure))
	}
	if len(d.parts.failed) != 1 {
		t.Error("the daemon goes on")
	}
}

// TestStateIsTriedSoon: work that a full disk of the state kept from being done is done soon after there is room (F7),
// however often it failed; what failed for another reason waits its time.
func TestStateIsTriedSoon(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]time.Duration{"full": tryAgain, "other": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := New(Options{Config: &config.Config{}, Log: slog.New(slog.DiscardHandler), Now: time.Now})
				j := queue.Job{Source: 3, Kind: queue.KindPull, Due: time.Now().Add(time.Hour)} // as the queue puts it back
				d.jobs.put(j.Source, j.Kind, j.Due)
				err := fmt.Errorf("record a step: %w", map[string]error{"full": store.ErrFull, "other": report.ErrNothingYet}[name])
				d.jobFailed(j, 9, j.Due, err)
				began := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				if err := d.jobs.Run(ctx, func(context.Context, queue.Job) error { cancel(); return nil }); err != nil {
					t.Fatal(err)
				}
				if got := time.Since(began); got != want {
					t.Errorf("tried after %s, want %s", got, want)
				}
			})
		})
	}
}
