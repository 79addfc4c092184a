package sync

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
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

// firmStore counts the commits that wait for the disk.
type firmStore struct {
	store.Store
	firm atomic.Int64
}

func (s *firmStore) Commit(ctx context.Context, c *store.Commit) error {
	if !c.Repeatable {
		s.firm.Add(1)
	}
	return s.Store.Commit(ctx, c)
}

// TestDiscoveryWaitsForNoDisk: between the documents that lead to a list nothing is made durable, whatever is remembered of
// them, and none of it is lost to the next run.
func TestDiscoveryWaitsForNoDisk(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	var st *firmStore
	var mu sync.Mutex
	var at []int64 // such commits before each document was asked for
	saw := func(path, text string) {
		f.page(path, text)
		serve := f.pages[path]
		f.handle(path, func(w http.ResponseWriter, req *http.Request) {
			mu.Lock()
			at = append(at, st.firm.Load())
			mu.Unlock()
			serve(w, req)
		})
	}
	f.rig.engine = func(e *Engine) { st = &firmStore{Store: e.Store}; e.Store = st }
	saw("/.well-known/resourcesync", list("description", "", f.entry("/capabilities.xml", `capability="capabilitylist"`)))
	saw("/capabilities.xml", list("capabilitylist", "", f.entry("/list.xml", `capability="resourcelist"`)))
	saw("/list.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a")))
	if res, err := f.run(); err != nil || res.Fetched != 1 || !res.InStep {
		t.Fatalf("%+v, %v", res, err)
	}
	mu.Lock()
	if len(at) != 3 || at[1] != at[0] || at[2] != at[0] {
		t.Errorf("commits that wait for the disk, before each document: %v", at)
	}
	mu.Unlock()
	if res, err := f.run(); err != nil || res.Kind != "none" || res.Requests != 3 || res.Bytes != 0 || !res.InStep {
		t.Errorf("again: %+v, %v", res, err)
	}
}

// TestUnderway: a run says that it is under way before it changes a file, and not at all if it changes none.
func TestUnderway(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{}, many(5))
	r.must()
	catchUp := func(refuse bool) (said int64, inStep bool, err error) {
		e, target, done := r.open()
		defer done()
		s := &sayingStore{Store: e.Store, refuse: refuse}
		e.Store = s
		res, err := e.Run(context.Background(), target, r.opts)
		return s.said.Load(), len(res) == 1 && res[0].InStep, err
	}
	if said, inStep, err := catchUp(true); said != 0 || !inStep || err != nil {
		t.Errorf("nothing to do: said %d times, in step: %v, %v", said, inStep, err)
	}
	r.put("d0/r000.txt", "changed")
	r.src.Delete("d1/r001.txt")
	if said, inStep, err := catchUp(true); said == 0 || inStep || !errors.Is(err, errRefused) {
		t.Errorf("the state took no word of it: said %d times, in step: %v, %v", said, inStep, err)
	}
	if b, err := os.ReadFile(r.path("d0/r000.txt")); err != nil || string(b) != "body 0" {
		t.Errorf("a file was changed before: %q, %v", b, err)
	}
	if _, err := os.Stat(r.path("d1/r001.txt")); err != nil {
		t.Errorf("a file was removed before: %v", err)
	}
	if said, inStep, err := catchUp(false); said != 2 || !inStep || err != nil { // that it is, that it was
		t.Errorf("two files: said %d times, in step: %v, %v", said, inStep, err)
	}
	r.equal()
}
