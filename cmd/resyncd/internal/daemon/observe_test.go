package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/store"
	syncengine "resyncd/sync"
	"resyncd/sync/queue"
	"resyncd/sync/report"
	"resyncd/sync/transfer"
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

// TestPackagesInFlight: a package shows from its first byte to its end, one that failed for a while and until it comes
// again, and what is remembered is bounded.
func TestPackagesInFlight(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		steps string // url, state
		later time.Duration
		want  string
	}{
		"none":                 {"", 0, ""},
		"begins":               {"a coming", 0, "a coming"},
		"two":                  {"a coming, a in-use, b coming, a in-use", 0, "a in-use, b coming"},
		"used up":              {"a coming, a in-use, a over", 0, ""},
		"cut":                  {"a coming, a coming, a over", 0, ""},
		"over only":            {"a over", 0, ""},
		"failed":               {"a coming, a over, a failed", 0, "a failed"},
		"failed in use":        {"a coming, a in-use, a failed, a in-use, a over", 0, "a failed"},
		"failed long ago":      {"a coming, a over, a failed", lately, ""},
		"comes again":          {"a failed, a coming", 0, "a coming"},
		"many fail":            {"1 failed, 2 failed, 3 failed, 4 failed, 5 failed, 6 failed, 7 failed, 8 failed, a coming", 0, "2 failed, 3 failed, 4 failed, 5 failed, 6 failed, 7 failed, 8 failed, a coming"},
		"in flight for a long": {"a coming", time.Hour, "a coming"},
	} {
		seen := &sightings{}
		for step := range strings.SplitSeq(c.steps, ", ") {
			if url, state, ok := strings.Cut(step, " "); ok {
				seen.packageIs(syncengine.PackageProgress{URL: url, State: transfer.PackageState(strings.ReplaceAll(state, "-", " "))}, noon)
			}
		}
		var got []string
		for _, p := range seen.packagesNow(noon.Add(c.later)) {
			got = append(got, p.URL+" "+strings.ReplaceAll(string(p.State), " ", "-"))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
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
