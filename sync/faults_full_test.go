package sync

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"resyncd/destination/peer/source"
	"resyncd/store/blob"
	"resyncd/sync/transfer"
)

// quotaMirror is a disk for so many more files. Removing one gives its room back, the trash gives none.
type quotaMirror struct {
	blob.Mirror
	room *atomic.Int64
}

func (m quotaMirror) Place(ctx context.Context, group []blob.Placement) ([]error, error) {
	errs := make([]error, len(group))
	var full error
	for i := range group {
		_, serr := m.Mirror.Stat(ctx, group[i].Key)
		if blob.Missing(serr) && m.room.Add(-1) < 0 {
			m.room.Add(1)
			errs[i] = &blob.KeyError{Op: "place", Key: group[i].Key, Err: blob.ErrNoSpace}
			full = errs[i]
			continue
		}
		one, err := m.Mirror.Place(ctx, group[i:i+1])
		if errs[i] = one[0]; err != nil {
			return errs, err
		}
	}
	return errs, full
}

func (m quotaMirror) NewStage(ctx context.Context) (blob.Stage, error) {
	s, err := m.Mirror.NewStage(ctx)
	if err == nil && m.room.Load() <= 0 {
		return fullStage{s}, nil
	}
	return s, err
}

func (m quotaMirror) Remove(ctx context.Context, keys []string) []error {
	errs := m.Mirror.Remove(ctx, keys)
	for _, err := range errs {
		if err == nil {
			m.room.Add(1)
		}
	}
	return errs
}

// TestFullMadeRoomFor: where the Source itself takes back what fills the disk, a mirror comes into step without anybody's help; where
// the trash keeps that room, the files leave the mirror and the error says what can be done (F6).
func TestFullMadeRoomFor(t *testing.T) {
	t.Parallel()
	turn := func(r *rig) { // a hundred files go, ninety others come
		for i := range 100 {
			r.src.Delete(fmt.Sprintf("d%d/r%03d.txt", i%3, i))
		}
		for i := range 90 {
			r.put(fmt.Sprintf("new/r%03d.txt", i), fmt.Sprint("new ", i))
		}
	}
	limit := func(r *rig, mode transfer.DeleteMode) *atomic.Int64 {
		var room atomic.Int64
		r.tune = func(t *Target) { t.Delete, t.Mirror = mode, quotaMirror{t.Mirror, &room} }
		return &room
	}
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		r := newRigIn(t, ramDir(t), source.Options{}, many(120))
		r.must()
		limit(r, transfer.DeleteNow)
		turn(r)
		if res := r.must(); res.Fetched != 90 || res.Deleted != 100 || res.Problem != "" {
			t.Errorf("%+v", res)
		}
	})
	t.Run("once, not enough", func(t *testing.T) {
		t.Parallel()
		r := newRigIn(t, ramDir(t), source.Options{}, many(120))
		r.must()
		room := limit(r, transfer.DeleteNow)
		turn(r)
		room.Store(-40)
		res, err := r.run()
		if err != nil || res.Fetched != 60 || res.Deleted != 100 || res.Owed != 30 || !strings.Contains(res.Problem, "full") {
			t.Errorf("%+v, %v", res, err)
		}
		if _, asked := r.asked(); len(asked) > 150 {
			t.Errorf("asked for %d", len(asked))
		}
		room.Store(30)
		r.must()
	})
	t.Run("once, the trash", func(t *testing.T) {
		t.Parallel()
		r := newRigIn(t, ramDir(t), source.Options{}, many(120))
		r.must()
		room := limit(r, transfer.DeleteTrash)
		turn(r)
		res, err := r.run()
		if err != nil || res.Fetched != 0 || res.Deleted != 100 || res.Owed != 90 || !strings.Contains(res.Problem, "`delete: now`") {
			t.Errorf("%+v, %v", res, err)
		}
		if _, err := os.Stat(r.path("d0/r000.txt")); !os.IsNotExist(err) {
			t.Errorf("what the Source deleted is there: %v", err)
		}
		room.Store(90)
		r.must()
	})
	t.Run("followed", func(t *testing.T) {
		t.Parallel()
		p := newPusherIn(t, ramDir(t), source.Options{}, many(120))
		p.pull(false)
		p.stop()
		limit(p.rig, transfer.DeleteNow)
		p.follow()
		p.put("first.txt", "more than the disk takes")
		p.pull(false)
		p.eventually("halted", p.f.rec.IsHalted)
		turn(p.rig)
		p.pull(false)
		p.eventually("the mirror equals the Source", p.same)
		p.eventually("its set is told to be in step", p.well)
	})
}
