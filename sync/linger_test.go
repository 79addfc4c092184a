package sync

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"resyncd/destination/peer/source"
	"resyncd/store/blob"
)

// waitingMirror has its first files placed when it may, and tells when so many bodies have come whole.
type waitingMirror struct {
	blob.Mirror
	may  <-chan struct{}
	left *atomic.Int64
	all  chan<- struct{}
}

type countedStage struct {
	blob.Stage
	closed func()
}

func (s countedStage) Close() error {
	err := s.Stage.Close()
	s.closed()
	return err
}

func (m waitingMirror) NewStage(ctx context.Context) (blob.Stage, error) {
	s, err := m.Mirror.NewStage(ctx)
	return countedStage{s, func() {
		if m.left.Add(-1) == 0 {
			close(m.all)
		}
	}}, err
}

func (m waitingMirror) Place(ctx context.Context, group []blob.Placement) ([]error, error) {
	<-m.may
	for i := range group {
		group[i].Stage = group[i].Stage.(countedStage).Stage
	}
	return m.Mirror.Place(ctx, group)
}

// TestEndPlacesWhatCame: a run that is told to end gives what it has received its place and its row, and asks for none of it again
// (F1).
func TestEndPlacesWhatCame(t *testing.T) {
	t.Parallel()
	const n = 40
	begin := func(r *rig) (all <-chan struct{}) {
		ended, came := make(chan struct{}), make(chan struct{})
		var once sync.Once
		r.interpose(func(_ http.ResponseWriter, req *http.Request) bool {
			if req.URL.Path != "/d0/r000.txt" {
				return false
			}
			<-req.Context().Done()
			once.Do(func() { close(ended) }) // only now is anything placed
			return true
		})
		var left atomic.Int64
		left.Store(n - 1)
		r.tune = func(t *Target) { t.Mirror = waitingMirror{t.Mirror, ended, &left, came} }
		return came
	}
	check := func(t *testing.T, r *rig) {
		t.Helper()
		if got := len(r.files()); got != n-1 {
			t.Errorf("%d of %d files are there", got, n-1)
		}
		r.interpose(nil)
		r.tune = nil
		r.must()
		if _, asked := r.asked(); !slices.Equal(asked, []string{"/d0/r000.txt"}) {
			t.Errorf("asked again for %v", asked)
		}
	}
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		r := newRigIn(t, ramDir(t), source.Options{}, many(n))
		all := begin(r)
		e, target, done := r.open()
		ctx, interrupt := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() {
			_, err := e.Run(ctx, target, r.opts)
			ran <- err
		}()
		<-all
		interrupt()
		if err := <-ran; !errors.Is(err, context.Canceled) {
			t.Errorf("the run ended with %v", err)
		}
		done()
		check(t, r)
	})
	t.Run("followed", func(t *testing.T) {
		t.Parallel()
		p := newPusherIn(t, ramDir(t), source.Options{}, many(n))
		p.stop()
		all := begin(p.rig)
		p.follow()
		p.later(WorkPull, p.eng.Now())
		<-all
		p.stop()
		check(t, p.rig)
	})
}
