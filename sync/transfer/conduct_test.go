package transfer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"resyncd/store"
)

// dueStore is a state of which only what is due is asked.
type dueStore struct {
	store.Store
	due  func(context.Context, store.DueQuery) ([]*store.Resource, error)
	next func() error
	rows func(ids []int64) []*store.Resource
}

func (s dueStore) Due(ctx context.Context, q store.DueQuery) ([]*store.Resource, error) {
	return s.due(ctx, q)
}

func (s dueStore) NextDue(context.Context, int64) (store.Micros, error) {
	return store.NoTime, s.next()
}

func (s dueStore) ByIDs(_ context.Context, ids []int64) ([]*store.Resource, error) {
	return s.rows(ids), nil
}

// TestFailureIsNoEnd: a state that fails while files are removed is told as that alone, not as somebody's wish to end.
func TestFailureIsNoEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("the state failed")
		w, next := NewWorkset(), error(nil)
		w.Follows = true
		s := siteOf(w)
		s.Store = dueStore{due: func(ctx context.Context, q store.DueQuery) ([]*store.Resource, error) {
			if q.Action == store.ActionRemove {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return nil, nil
		}, next: func() error { return next }}
		r := alone(s, func() {})
		err := r.While(t.Context(), func(ctx context.Context) error {
			synctest.Wait()
			next = failed
			w.Poke()
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, failed) || errors.Is(err, context.Canceled) {
			t.Errorf("told: %v", err)
		}
	})
}

// TestFastHub: however many rows are named, no more than a few pages of them are held.
func TestFastHub(t *testing.T) {
	t.Parallel()
	w, last := NewWorkset(), int64(0)
	w.Follows = true
	s := siteOf(w)
	s.Store = dueStore{rows: func(ids []int64) (rs []*store.Resource) {
		for _, id := range ids {
			rs = append(rs, &store.Resource{ID: id, Work: store.Work{Action: store.ActionFetch}})
		}
		return rs
	}}
	c := conductor{r: alone(s, func() {}), dry: true}
	for range 100 {
		ids := make([]int64, 500)
		for i := range ids {
			last++
			ids[i] = last
		}
		w.Name(ids)
		var urgent []*store.Resource
		for range w.UrgentRoom() {
			last++
			urgent = append(urgent, &store.Resource{ID: last})
		}
		w.HandUrgent(w.Begin(urgent))
		if err := c.hear(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(c.queue) + len(w.named); n > queueMost+duePage+urgentMost+namedMost {
		t.Errorf("%d rows are held", n)
	}
	if len(c.queue) > queueMost+duePage+urgentMost {
		t.Errorf("%d rows are queued", len(c.queue))
	}
}
