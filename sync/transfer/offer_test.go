package transfer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

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
	w.HandOffered(rowsOf(2, 3), offersOf(p, 3))
	if got, _ := w.TakeReady(10); len(got) != 2 || got[0].ID != 3 || w.useOffer(4) == nil || w.useOffer(2) == nil {
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
	if w.HandOffered(rowsOf(9, 1), offersOf(p, 1)); w.Busy(9) {
		t.Error("handed on to nobody")
	}
}

// TestPushIsNotHeld: what a notification waits for goes on while a pull holds the rest, in pages as ever.
func TestPushIsNotHeld(t *testing.T) {
	t.Parallel()
	w := NewWorkset()
	w.Follows = true
	push := func(from, n int64) (ids []int64) {
		for id := from; id < from+n; id++ {
			w.Expect(id, &Note{})
			ids = append(ids, id)
		}
		return ids
	}
	w.Name(append([]int64{1}, push(2, 1)...))
	w.Hold()
	w.Name(append(push(3, 2), 5))
	if _, ids, _ := w.Hear(); !slices.Equal(ids, []int64{2, 3, 4}) {
		t.Errorf("heard %v", ids)
	}
	w.NameAll()
	w.Name(push(6, 1))
	if _, ids, all := w.Hear(); !slices.Equal(ids, []int64{6}) || all {
		t.Errorf("after many were named: %v, %v", ids, all)
	}
	w.Name(push(1000, 2*namedMost))
	if _, ids, _ := w.Hear(); len(ids) != duePage || len(w.offers.pushed) != namedMost-duePage {
		t.Errorf("%d are heard, %d are held in memory", len(ids), len(w.offers.pushed))
	}
	w.Release()
	seen, everything := 0, false
	for {
		_, ids, all := w.Hear()
		seen, everything = seen+len(ids), everything || all
		if len(ids) == 0 {
			break
		}
	}
	if seen != namedMost-duePage || !everything {
		t.Errorf("released: %d more, all %v", seen, everything)
	}
	w.Hold()
	w.Name(push(9, 1))
	w.drop()
	if _, ids, _ := w.Hear(); len(ids) > 0 {
		t.Errorf("after a halt %v", ids)
	}
}

// TestWorksetModel: whatever happens in whatever order, offers belong to rows in flight, a package is discarded once and only when it
// is sealed and nobody may use it, and while held no row leaves that is neither urgent, pushed nor offered.
func TestWorksetModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := NewWorkset()
		w.Follows = true
		w.Take()
		type pack struct {
			*Package
			sealed bool
			inUse  int // offers that workers have
		}
		packs := []*pack{}
		using := map[int64][]*Offer{} // a run may end before its workers do
		plain := map[int64]bool{}     // named while held, without a notification
		id := rapid.Int64Range(1, 6)
		t.Repeat(map[string]func(*rapid.T){
			"package": func(*rapid.T) { packs = append(packs, &pack{Package: NewPackage("", &memory{}, nil, nil)}) },
			"seal": func(t *rapid.T) {
				for _, p := range packs {
					if !p.sealed && rapid.Bool().Draw(t, "this") {
						p.sealed = true
						p.Seal()
					}
				}
			},
			"offer": func(t *rapid.T) {
				for _, p := range packs {
					if !p.sealed {
						w.HandOffered(rowsOf(id.Draw(t, "id"), 2), offersOf(p.Package, 2))
					}
				}
			},
			"offer one in flight": func(t *rapid.T) {
				for _, p := range packs {
					if !p.sealed {
						w.Offer(id.Draw(t, "id"), &Offer{Package: p.Package})
					}
				}
			},
			"hand": func(t *rapid.T) {
				if took := w.HandReady(rowsOf(id.Draw(t, "id"), 1)); took && w.isHeld() {
					t.Fatal("a row without an offer is handed on")
				}
			},
			"touch": func(t *rapid.T) { w.Touch(&store.ResourceChange{ID: id.Draw(t, "id")}, 0) },
			"take": func(*rapid.T) {
				rs, _ := w.TakeReady(2)
				for _, r := range rs {
					if o := w.useOffer(r.ID); o != nil {
						using[r.ID] = append(using[r.ID], o)
					}
				}
			},
			"end": func(t *rapid.T) {
				one := id.Draw(t, "id")
				for _, o := range using[one] {
					o.Package.release()
				}
				delete(using, one)
				w.end(&store.Resource{ID: one})
			},
			"hold":    func(*rapid.T) { w.Hold() },
			"release": func(*rapid.T) { w.Release(); clear(plain) },
			"name": func(t *rapid.T) {
				one := id.Draw(t, "id") + 100
				if w.Name([]int64{one}); w.isHeld() {
					plain[one] = true
				}
			},
			"hear": func(t *rapid.T) {
				_, ids, _ := w.Hear()
				for _, one := range ids {
					if plain[one] {
						t.Fatalf("%d leaves while held", one)
					}
				}
			},
			"drop": func(*rapid.T) { w.drop() },
			"clear": func(*rapid.T) {
				w.Clear()
				w.Take()
			},
			"": func(t *rapid.T) {
				for one := range w.offers.rows {
					if !w.Busy(one) {
						t.Fatalf("an offer of row %d, which is not in flight", one)
					}
				}
				for _, p := range packs {
					p.inUse = 0
					for _, o := range w.offers.rows {
						if o.Package == p.Package {
							p.inUse++
						}
					}
					for _, all := range using {
						for _, o := range all {
							if o.Package == p.Package {
								p.inUse++
							}
						}
					}
					spool := p.spool.(*memory)
					if free := p.sealed && p.inUse == 0; isDone(p.Package) != free || spool.ended.Load() != free {
						t.Fatalf("sealed %v, %d offers, done %v, ended %v", p.sealed, p.inUse, isDone(p.Package), spool.ended.Load())
					}
				}
			},
		})
	})
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
