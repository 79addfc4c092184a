package subscribe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/destination"
	"resyncd/destination/rsdoc"
	"resyncd/store"
)

// TestAnnouncements: no older state comes after a newer one, even if a new record is carried out before it is announced.
func TestAnnouncements(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		ab(w)
		st := &meanwhile{memory: w.st}
		w.k = w.newKeeper(st)
		st.added = func() {
			w.k.Wake()
			wait(time.Minute)
		}
		var told []store.Subscription
		w.k.o.Changed = func(s store.Subscription) { told = append(told, s) }
		w.k.SetSource(1, Plan{Name: "s", Push: true})
		stop := w.run()
		wait(time.Minute)
		w.offer(1, "https://source.example/t", hubA)
		w.wantState(store.SubActive)
		stop()
		if len(told) < 2 || told[len(told)-1].State != store.SubActive {
			t.Errorf("told %+v", told)
		}
		for _, s := range told[1:] {
			if s.State == store.SubWanted {
				t.Errorf("told %+v", told)
			}
		}
	})
}

// TestAddedAtTheEnd: a record that was written when its caller's time ran out is carried out all the same.
func TestAddedAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		ab(w)
		st := &meanwhile{memory: w.st}
		w.k = w.newKeeper(&ending{st})
		ctx, cancel := context.WithCancel(t.Context())
		st.added = cancel
		w.k.SetSource(1, Plan{Name: "s", Push: true})
		stop := w.run()
		wait(time.Minute)
		chs := []destination.Channel{{Kind: rsdoc.KindChangeNotification, Topic: "https://source.example/t", Hubs: []string{hubA}}}
		if err := w.k.SetChannels(ctx, 1, 1, chs); err != nil {
			t.Error(err)
		}
		wait(time.Minute)
		w.wantState(store.SubActive)
		stop()
	})
}

// ending reads nothing for a context that has ended.
type ending struct{ *meanwhile }

func (e *ending) Subscription(ctx context.Context, id int64) (store.Subscription, error) {
	if err := ctx.Err(); err != nil {
		return store.Subscription{}, err
	}
	return e.meanwhile.Subscription(ctx, id)
}

// TestCancelledMeanwhile: what another process cancels while a set loses its channels stays off.
func TestCancelledMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		ab(w)
		st := &meanwhile{memory: w.st}
		w.k = w.newKeeper(st)
		topic := w.source(1, hubA)
		stop := w.run()
		wait(time.Minute)
		st.listed = func() {
			st.listed = nil
			if n, err := New(Options{Store: w.st}).Cancel(t.Context(), 1, topic); n != 1 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}
		if err := w.k.SetChannels(t.Context(), 1, 1, nil); err != nil {
			t.Error(err)
		}
		if all := w.subs(1); len(all) != 1 || all[0].State != store.SubOff {
			t.Errorf("%+v", all)
		}
		stop()
		wait(time.Minute)
	})
}
