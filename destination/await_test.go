package destination

import (
	"context"
	"net/http"
	"testing"
	"time"
)

// TestAwait: whatever a Reader does that may take long is done while others may have the turn, and nothing else is: neither
// its Memory nor its Visitor is called then.
func TestAwait(t *testing.T) {
	t.Parallel()
	s := newSite(t, library())
	fail := 1
	s.on(func(w http.ResponseWriter, _ *http.Request) bool {
		if fail--; fail < 0 {
			return false
		}
		w.WriteHeader(http.StatusBadGateway)
		return true
	})
	waiting, waits, slept := false, 0, false
	mine := turns{memory: memory{}, t: t, waiting: &waiting}
	r := testReader(t, func(o *ReaderOptions) {
		o.Memory, o.RetryFor = mine, 10*time.Second
		o.Await = func() func() {
			waiting, waits = true, waits+1
			return func() { waiting = false }
		}
	})
	r.sleep = func(context.Context, time.Duration) error {
		slept = waiting
		return nil
	}
	if _, err := readDocument(t, r, s.URL+"/a/cap.xml"); err != nil {
		t.Fatal(err)
	}
	if waits < 4 || !slept || waiting { // two answers, a pause and a body
		t.Errorf("%d waits, slept in one: %v, waits still: %v", waits, slept, waiting)
	}
}

// turns is a memory that must not be asked in a wait.
type turns struct {
	memory
	t       *testing.T
	waiting *bool
}

func (m turns) Recall(ctx context.Context, url string) (*Document, error) {
	m.look()
	return m.memory.Recall(ctx, url)
}

func (m turns) Remember(ctx context.Context, d *Document) error {
	m.look()
	return m.memory.Remember(ctx, d)
}

func (m turns) look() {
	if *m.waiting {
		m.t.Error("its memory was called in a wait")
	}
}
