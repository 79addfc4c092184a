package transfer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/store"
)

// TestHandover: rows are handed on while a reconciler is there and few wait; what is not taken, or is wanted otherwise by then,
// is in flight no more and found in the store.
func TestHandover(t *testing.T) {
	t.Parallel()
	w := NewWorkset()
	rows := func(from, n int) (rs []*store.Resource) {
		for i := range n {
			rs = append(rs, &store.Resource{ID: int64(from + i)})
		}
		return rs
	}
	if w.HandReady(rows(1, 3)) || len(w.flight) != 0 {
		t.Error("handed on to nobody")
	}
	w.Take()
	if !w.HandReady(rows(1, readyLow+1)) || w.HandReady(rows(5000, 1)) {
		t.Error("handed on with no room, or not with room")
	}
	if len(w.wake) != 1 {
		t.Error("nobody was told that rows came")
	}
	change := store.ResourceChange{ID: 2}
	w.Touch(&change, 77)
	if change.Work == nil || change.Work.Action != store.ActionFetch {
		t.Error("what waits to be fetched may be forgotten")
	}
	got, again := w.TakeReady(3)
	if len(got) != 2 || got[0].ID != 1 || got[1].ID != 3 || !again {
		t.Errorf("took %d, again %v", len(got), again)
	}
	if w.Busy(2) {
		t.Error("a row that nobody works on is in flight")
	}
	if len(w.ready) == 0 || !w.HandReady(rows(5000, 1)) {
		t.Error("no room after some were taken")
	}
	w.end(got...)
	w.Clear()
	if got, _ := w.TakeReady(10); len(got) > 0 || len(w.ready) > 0 || len(w.flight) != 0 || w.HandReady(rows(6000, 1)) {
		t.Error("something stayed after the end of a run")
	}
}

// TestPlannerWaitsForRoom: for as long as fetches keep up, but never for long.
func TestPlannerWaitsForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWorkset()
		waited := func() time.Duration {
			began := time.Now()
			w.AwaitRoom(t.Context())
			return time.Since(began)
		}
		full := func() {
			rows := make([]*store.Resource, readyLow+1)
			for i := range rows {
				rows[i] = &store.Resource{ID: int64(i + 1)}
			}
			w.Take()
			w.HandReady(rows)
		}
		if d := waited(); d != 0 {
			t.Errorf("waited %s though nobody takes", d)
		}
		full()
		if d := waited(); d != readyPatience {
			t.Errorf("waited %s for fetches that hang", d)
		}
		for what, end := range map[string]func(){"room": func() { w.TakeReady(5) }, "the end": w.Clear} {
			w.Clear()
			full()
			go func() {
				<-time.After(readyPatience / 4)
				end()
			}()
			if d := waited(); d != readyPatience/4 {
				t.Errorf("%s: waited %s", what, d)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		w.Clear()
		full()
		cancel()
		began := time.Now()
		w.AwaitRoom(ctx)
		if d := time.Since(began); d != 0 {
			t.Errorf("waited %s after the end", d)
		}
	})
}
