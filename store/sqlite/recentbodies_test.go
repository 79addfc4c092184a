package sqlite

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"resyncd/store"
	"resyncd/store/sqlite/dbfile"
)

// said delivers notifications of these numbers, and tells which of them were repeated.
func (f *filled) said(t *testing.T, received store.Micros, numbers ...int) (repeated []bool) {
	t.Helper()
	var ds []*store.Delivery
	for _, n := range numbers {
		d := benchDelivery(f.claim.SourceID, f.set.ID, 1, n)
		d.Received = received
		ds = append(ds, d)
	}
	if err := f.s.Deliver(t.Context(), ds, nil); err != nil {
		t.Fatal(err)
	}
	for _, d := range ds {
		repeated = append(repeated, d.Duplicate)
	}
	return repeated
}

func (f *filled) marked(t *testing.T) (rows, last int) {
	t.Helper()
	return int(number(t, f.s, "SELECT count(*) FROM mark")), int(number(t, f.s, "SELECT coalesce(max(id), 0) FROM mark"))
}

// TestMarksBounded: marks do not grow without an end (P8), neither on disk nor in memory, and the newest stay.
func TestMarksBounded(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	const keep, group = 1000, 10
	f.s.limits.marks, f.s.recent.max = keep, keep
	at := store.MicrosOf(time.Now())
	for n := 0; n < 4*keep; n += group {
		var numbers []int
		for i := range group {
			numbers = append(numbers, n+i)
		}
		f.said(t, at, numbers...)
	}
	if rows, _ := f.marked(t); rows > (keep+tidyRows)/group {
		t.Errorf("%d rows before anybody tidied", rows)
	}
	for more := true; more; {
		var err error
		if more, err = f.s.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if rows, last := f.marked(t); rows != keep/group || last != 4*keep {
		t.Errorf("%d rows, the last one is %d", rows, last)
	}
	if l := &f.s.recent; len(l.newer)+len(l.older) > keep {
		t.Errorf("%d marks in memory", len(l.newer)+len(l.older))
	}
	if got := f.said(t, at, 4*keep-1, 4*keep-keep/2, 0); !got[0] || !got[1] || got[2] {
		t.Errorf("the newest, half as many before it, the oldest: %v", got)
	}
}

// TestMarksOfAnEarlierProcess: what was delivered before counts, for a day, and then its marks go.
func TestMarksOfAnEarlierProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	f := newFilled(t, path)
	now := store.MicrosOf(time.Now())
	f.said(t, now-2*repeatWindow, 1, 2)
	f.said(t, now-repeatWindow/2, 3)
	if err := f.s.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.s, err = Open(t.Context(), path, Options{}); err != nil {
		t.Fatal(err)
	}
	defer f.s.Close()
	for more := true; more; {
		if more, err = f.s.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if rows, last := f.marked(t); rows != 1 || last != 3 {
		t.Errorf("%d rows, the last one is %d", rows, last)
	}
	if got := f.said(t, now, 3, 1, 4, 4); !got[0] || got[1] || got[2] || !got[3] {
		t.Errorf("%v", got)
	}
	if rows, last := f.marked(t); rows != 2 || last != 5 {
		t.Errorf("%d rows, the last one is %d", rows, last)
	}
}

// TestMarksOfWhatFailed: a body whose transaction failed was not delivered, so the hub's next try is no repetition.
func TestMarksOfWhatFailed(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	full := errors.New("the disk is full")
	d := benchDelivery(f.claim.SourceID, f.set.ID, 1, 1)
	g := &group{ds: []*store.Delivery{d}, ids: make([]int64, 1), repeated: make([]bool, 1), recent: &f.s.recent}
	err := f.s.db.Write(t.Context(), "keep deliveries", func(tx *dbfile.Session) {
		g.apply(tx)
		tx.Fail(full)
	})
	if !errors.Is(err, full) {
		t.Fatal(err)
	}
	if got := f.said(t, d.Received, 1); got[0] {
		t.Error("what was never kept is called a repetition")
	}
	if got := f.said(t, d.Received, 1); !got[0] {
		t.Error("a repetition is not known")
	}
}
