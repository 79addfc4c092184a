package queue

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestHistories: random histories keep to one writer per Source, lose no Put, begin nothing early or dropped, and give
// back every slot.
func TestHistories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		o := limits{
			slots: rapid.IntRange(1, 3).Draw(r, "slots"), aside: rapid.IntRange(1, 3).Draw(r, "aside"), patience: usual.patience,
		}
		steps := rapid.SliceOfN(rapid.Custom(drawStep), 1, 60).Draw(r, "steps")
		// Drawing may leave the function by a panic, which must not happen in a bubble.
		synctest.Test(t, func(*testing.T) { history(r, o, steps) })
	})
}

type key struct {
	source int64
	kind   Kind
}

// step is a Put of a Job that takes and fails so, or where drop or pause is set, that.
type step struct {
	key
	drop       bool
	pause      time.Duration
	due, takes time.Duration
	fails      bool
}

var drawnKinds = []Kind{KindNotify, KindGap, KindPull, KindScrub}

func drawStep(t *rapid.T) step {
	s := step{key: key{rapid.Int64Range(1, 5).Draw(t, "source"), rapid.SampledFrom(drawnKinds).Draw(t, "kind")}}
	switch rapid.IntRange(0, 9).Draw(t, "step") {
	case 0:
		s.drop = true
	case 1, 2, 3:
		s.pause = time.Duration(rapid.Int64Range(1, int64(5*time.Second)).Draw(t, "pause"))
	default:
		s.due = time.Duration(rapid.IntRange(-5, 5).Draw(t, "due")) * time.Second
		s.takes = time.Duration(rapid.IntRange(0, 4000).Draw(t, "takes")) * time.Millisecond
		s.fails = rapid.Bool().Draw(t, "fails")
	}
	return s
}

func history(t *rapid.T, o limits, steps []step) {
	q := newLocal(LocalOptions{}, o)
	var mu sync.Mutex
	want := map[key]time.Time{} // put and not yet begun: due
	inside := map[int64]bool{}
	fails := map[key]bool{}
	drops := map[int64]int{}
	takes := map[key]time.Duration{}
	problem := func(format string, args ...any) { t.Errorf(format, args...) }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- q.Run(ctx, func(_ context.Context, j Job) error {
			k := key{j.Source, j.Kind}
			mu.Lock()
			if inside[j.Source] {
				problem("source %d is worked on twice at a time", j.Source)
			}
			inside[j.Source] = true
			if due, ok := want[k]; !ok || time.Now().Before(due) {
				problem("%v began, wanted: %v, due %v", j, ok, due)
			}
			delete(want, k)
			takes, fail, before := takes[k], fails[k], drops[k.source]
			mu.Unlock()
			<-time.After(takes)
			mu.Lock()
			defer mu.Unlock()
			inside[j.Source] = false
			if fail {
				fails[k] = false
				if due, put := want[k]; drops[k.source] == before && (!put || time.Now().Before(due)) {
					want[k] = time.Now() // again
				}
				return errors.New("failed")
			}
			return nil
		})
	}()
	for _, s := range steps {
		switch {
		case s.drop:
			synctest.Wait()
			mu.Lock()
			drops[s.source]++
			for _, kind := range drawnKinds {
				delete(want, key{s.source, kind})
				fails[key{s.source, kind}] = false
			}
			mu.Unlock()
			q.Drop(s.source)
		case s.pause > 0:
			<-time.After(s.pause)
		default:
			due := time.Now().Add(s.due)
			mu.Lock()
			if old, ok := want[s.key]; !ok || due.Before(old) {
				want[s.key] = due
			}
			fails[s.key], takes[s.key] = s.fails, s.takes
			mu.Unlock()
			q.Put(Job{Source: s.source, Kind: s.kind, Due: due})
		}
	}
	<-time.After(10 * time.Minute)
	synctest.Wait()
	mu.Lock()
	if len(want) != 0 {
		problem("never began: %v", want)
	}
	mu.Unlock()
	q.mu.Lock()
	for id, l := range q.lanes {
		if l.seat != seatNone || !l.asked.IsZero() || len(l.waiting) != 0 || l.running != "" {
			problem("lane %d is left as %+v", id, l)
		}
	}
	if q.slots != q.limits.slots || q.aside != 0 || len(q.holding)+len(q.asking) != 0 {
		problem("left: %d slots, %d aside, %d holding, %d asking", q.slots, q.aside, len(q.holding), len(q.asking))
	}
	q.mu.Unlock()
	cancel()
	if err := <-ended; err != nil {
		problem("%v", err)
	}
}
