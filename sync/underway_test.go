package sync

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"

	"resyncd/destination/peer/source"
	"resyncd/store"
)

// sayingStore counts the commits that say how a run stands, and may refuse them.
type sayingStore struct {
	store.Store
	said   atomic.Int64
	refuse bool
}

var errRefused = errors.New("refused by the test")

func (s *sayingStore) Commit(ctx context.Context, c *store.Commit) error {
	if c.Source != nil && c.Source.Unclean != nil {
		if s.said.Add(1); s.refuse {
			return errRefused
		}
	}
	return s.Store.Commit(ctx, c)
}

// TestUnderway: a run says that it is under way before it changes a file, and not at all if it changes none.
func TestUnderway(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{}, many(5))
	r.must()
	catchUp := func(refuse bool) (said int64, inStep bool) {
		e, target, done := r.open()
		defer done()
		s := &sayingStore{Store: e.Store, refuse: refuse}
		e.Store = s
		res, err := e.Run(context.Background(), target, r.opts)
		if err != nil || len(res) != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
		return s.said.Load(), res[0].InStep
	}
	if said, inStep := catchUp(true); said != 0 || !inStep {
		t.Errorf("nothing to do: said %d times, in step: %v", said, inStep)
	}
	r.put("d0/r000.txt", "changed")
	r.src.Delete("d1/r001.txt")
	if said, inStep := catchUp(true); said == 0 || inStep {
		t.Errorf("the state took no word of it: said %d times, in step: %v", said, inStep)
	}
	if b, err := os.ReadFile(r.path("d0/r000.txt")); err != nil || string(b) != "body 0" {
		t.Errorf("a file was changed before: %q, %v", b, err)
	}
	if _, err := os.Stat(r.path("d1/r001.txt")); err != nil {
		t.Errorf("a file was removed before: %v", err)
	}
	if said, inStep := catchUp(false); said != 2 || !inStep { // that it is, that it was
		t.Errorf("two files: said %d times, in step: %v", said, inStep)
	}
	r.equal()
}
