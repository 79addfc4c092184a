package transfer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/store"
)

// rowsOf are so many resources, by rising id.
func rowsOf(from int64, n int) (rs []*store.Resource) {
	for i := range int64(n) {
		rs = append(rs, &store.Resource{ID: from + i})
	}
	return rs
}

// offersOf are so many offers of one package.
func offersOf(p *Package, n int) []*Offer {
	os := make([]*Offer, n)
	for i := range os {
		os[i] = &Offer{Package: p}
	}
	return os
}

// TestHold: a held workset lets go what is urgent or offered, and all else once it is released.
func TestHold(t *testing.T) {
	t.Parallel()
	w := NewWorkset()
	w.Follows = true
	w.Take()
	w.Hold()
	w.Name([]int64{1})
	w.HandUrgent(w.Begin(rowsOf(2, 1)))
	if urgent, ids, all := w.Hear(); len(urgent) != 1 || len(ids) > 0 || all {
		t.Errorf("heard while held: %d urgent, %v, %v", len(urgent), ids, all)
	}
	if w.HandReady(rowsOf(3, 1)) || w.Busy(3) {
		t.Error("rows without an offer are handed on")
	}
	p := NewPackage("", &memory{}, nil, nil)
	if !w.HandOffered(rowsOf(2, 3), offersOf(p, 3)) {
		t.Error("offered rows are refused")
	}
	if got, _ := w.TakeReady(10); len(got) != 2 || got[0].ID != 3 || w.takeOffer(4) == nil || w.takeOffer(2) == nil {
		t.Errorf("%d offered rows are handed on, and not one that is in flight", len(got))
	}
	w.Release()
	if _, ids, _ := w.Hear(); len(ids) != 1 || len(w.wake) != 1 {
		t.Errorf("released: %v, %d", ids, len(w.wake))
	}
	w.Hold()
	if w.NameAll(); w.takeRemovals(false) {
		t.Error("removals of what nobody heard of")
	}
	w.Removals()
	if !w.takeRemovals(false) {
		t.Error("removals wait")
	}
	w.Release()
	if _, _, all := w.Hear(); !all {
		t.Error("what was named while held is forgotten")
	}
	w.Clear()
	if w.HandOffered(rowsOf(9, 1), offersOf(p, 1)) || w.Busy(9) {
		t.Error("handed on to nobody")
	}
}

// TestHeldRunRemovesLast: a run that ends removes after its fetches, and those are still held.
func TestHeldRunRemovesLast(t *testing.T) {
	t.Parallel()
	w := NewWorkset()
	w.Removals()
	if w.Hold(); w.takeRemovals(true) {
		t.Error("files go before the fetches")
	}
	if w.Release(); !w.takeRemovals(true) {
		t.Error("files never go")
	}
}

// TestPlannerWaitsForOffers: without bound while there are offers, as asking for their rows would cost requests.
func TestPlannerWaitsForOffers(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(w *Workset, cancel func()){
		"room":        func(w *Workset, _ func()) { w.TakeReady(5) },
		"a full disk": func(w *Workset, _ func()) { w.drop() },
		"the run":     func(w *Workset, _ func()) { w.Clear() },
		"the planner": func(_ *Workset, cancel func()) { cancel() },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := NewWorkset()
			w.Take()
			w.HandOffered(rowsOf(1, readyLow+1), offersOf(NewPackage("", &memory{}, nil, nil), readyLow+1))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			began := time.Now()
			go func() {
				<-time.After(time.Hour)
				end(w, cancel)
			}()
			if w.AwaitRoom(ctx); time.Since(began) != time.Hour {
				t.Errorf("%s: waited %s", what, time.Since(began))
			}
		})
	}
}

// TestNoRestWhileHeld: a pull must not be concluded while its rows are held.
func TestNoRestWhileHeld(t *testing.T) {
	t.Parallel()
	w := NewWorkset()
	r := alone(siteOf(w), nil)
	if !r.rest(true) || !r.Rests() {
		t.Fatal("never rests")
	}
	if w.Hold(); r.Rests() || r.rest(true) {
		t.Error("rests while held")
	}
	if w.Release(); r.Rests() || !r.rest(true) {
		t.Error("no rest begins after")
	}
}

// TestConductorIsHeld: rows that are due are not looked for while held, but for those that are offered; after the release all are.
func TestConductorIsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWorkset()
		s := siteOf(w)
		due, looks := rowsOf(1, 2), 0
		s.Store = dueStore{due: func(_ context.Context, q store.DueQuery) (rs []*store.Resource, _ error) {
			if q.Action == store.ActionFetch {
				looks++
				for _, r := range due {
					if r.ID > q.After {
						rs = append(rs, r)
					}
				}
			}
			return rs, nil
		}, next: func() error { return nil }}
		rests := 0
		r := alone(s, func() { rests++ })
		w.Hold()
		err := r.While(t.Context(), func(context.Context) error {
			<-time.After(time.Minute)
			if looks > 0 || rests > 0 || r.Rests() {
				t.Errorf("held: %d looks, %d rests", looks, rests)
			}
			r.Retry(time.Unix(1, 0))
			r.tallied(func(tl *tally) { // both are given up
				for _, one := range due {
					one.Work.Attempts = 1
					tl.failing.Add(one.ID)
				}
			})
			w.Release()
			synctest.Wait()
			if looks == 0 || rests != 1 || len(w.InFlight()) > 0 {
				t.Errorf("released: %d looks, %d rests, in flight %v", looks, rests, w.InFlight())
			}
			return errDone
		})
		if !errors.Is(err, errDone) {
			t.Error(err)
		}
	})
}

var errDone = errors.New("done")
