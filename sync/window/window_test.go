package window

import (
	"fmt"
	"slices"
	"testing"

	"resyncd/store"
)

// dated is a window of entries 1, 2, ... in the order of a document, whose instants are given.
func dated(at ...store.Micros) *Window {
	w := &Window{}
	for i, when := range at {
		w.Entries = append(w.Entries, Entry{Key: uint64(i + 1), At: when})
	}
	return w
}

// TestReach: which entries that are met vouch for all that came after them.
func TestReach(t *testing.T) {
	t.Parallel()
	newestFirst := dated(60, 50, 40, 30, 20, 10)
	pinned := dated(10, 60, 50, 40, 30, 20)
	undated := dated(store.NoTime, store.NoTime, store.NoTime, store.NoTime)
	for name, tc := range map[string]struct {
		window            *Window
		met               map[uint64]store.Micros
		reached, vanished bool
	}{
		"nothing":                {newestFirst, nil, false, false},
		"all":                    {newestFirst, map[uint64]store.Micros{1: 60, 2: 50, 3: 40, 4: 30, 5: 20, 6: 10}, true, false},
		"the newer half":         {newestFirst, map[uint64]store.Micros{1: 60, 2: 50}, true, false},
		"an old one alone":       {newestFirst, map[uint64]store.Micros{6: 10}, false, true},
		"a pin alone":            {pinned, map[uint64]store.Micros{1: 10}, false, true},
		"moved up":               {newestFirst, map[uint64]store.Micros{1: 70, 2: 70, 3: 70, 4: 70, 5: 70, 6: 70}, false, false},
		"one left its place":     {newestFirst, map[uint64]store.Micros{1: 60, 3: 40, 4: 30, 5: 20, 6: 10}, true, true},
		"without dates, its end": {undated, map[uint64]store.Micros{3: store.NoTime, 4: store.NoTime}, true, false},
	} {
		r := tc.window.Reach()
		for key, when := range tc.met {
			if !r.Meet(key, when) {
				t.Errorf("%s: %d is not known", name, key)
			}
		}
		if r.Meet(99, 99) || r.Reached() != tc.reached || r.Vanished() != tc.vanished {
			t.Errorf("%s: reached %t, vanished %t", name, r.Reached(), r.Vanished())
		}
	}
}

// TestAhead: what is dated ahead stands for long and vouches for nothing, unless there is nothing else.
func TestAhead(t *testing.T) {
	t.Parallel()
	w := dated(900, 800, 20, 10)
	w.Entries[0].Ahead, w.Entries[1].Ahead = true, true
	r := w.Reach()
	if r.Meet(1, 900); r.Reached() || !w.Regular() {
		t.Error("what is dated ahead vouched")
	}
	w.Entries = w.Entries[:2]
	r = w.Reach()
	r.Meet(1, 900)
	if r.Meet(2, 800); !r.Reached() || w.Regular() {
		t.Error("nothing vouched")
	}
}

// TestTrim: the newest entries stay, wherever they stand.
func TestTrim(t *testing.T) {
	t.Parallel()
	w := &Window{}
	for i := range Most + 5 {
		w.Entries = append(w.Entries, Entry{Key: uint64(i), At: store.Micros(i)})
	}
	if w.Trim(); len(w.Entries) != Most || w.Entries[0].Key != Most+4 || w.Entries[Most-1].Key != 5 {
		t.Errorf("%d left, from %d to %d", len(w.Entries), w.Entries[0].Key, w.Entries[len(w.Entries)-1].Key)
	}
}

// TestPageOrder: pages are newest first until one of them shows otherwise, and then for good not.
func TestPageOrder(t *testing.T) {
	t.Parallel()
	var o PageOrder
	turn := func(want Order, at ...store.Micros) {
		t.Helper()
		for _, when := range at {
			o.Meet(when)
		}
		if o.Turn(); o.Found != want {
			t.Errorf("%v: %q, want %q", at, o.Found, want)
		}
	}
	turn(OrderUnknown, 90, 80, 70, 60)
	turn(NewestFirst, 50, 40, 30, 20)
	turn(NoOrder, 95, 96, 97, 98)
	turn(NoOrder, 9, 8, 7, 6)
	if o.Newest().Known() {
		t.Error("an empty page has a newest entry")
	}
}

// TestFlaws: an entry that could not be read has left the feed once what stands beside it has, and it is not there still.
func TestFlaws(t *testing.T) {
	t.Parallel()
	var f Flaws
	var o PageOrder
	for i, when := range []store.Micros{90, 80, 70} {
		o.Meet(when)
		f.Meet(uint64(i+1), 2*i) // one flaw before the second and the third
	}
	f.End(0, 1)
	o.Turn()
	beside := f.Beside(&o)
	if got := fmt.Sprint(beside); f.Len() != 3 || got != "[[2] [3] [0]]" {
		t.Errorf("%d: %s", f.Len(), got)
	}
	r := dated(90, 80, 70).Reach()
	r.Meet(2, 80)
	for _, tc := range []struct {
		flaws, still [][]uint64
		left         bool
	}{
		{beside[:1], nil, false}, {beside[1:2], nil, true}, {beside[1:2], beside, false}, {nil, nil, false},
	} {
		if got := r.Left(slices.Clone(tc.flaws), tc.still); got != tc.left {
			t.Errorf("%v, still %v: left %t", tc.flaws, tc.still, got)
		}
	}
}
