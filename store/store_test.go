package store

import (
	"testing"
	"time"
)

func TestMicros(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 16, 0, 0, 123_456_789, time.FixedZone("", 3600))
	m := MicrosOf(at)
	if !m.Known() || !m.Time().Equal(at.Truncate(time.Microsecond)) || m.Time().Location() != time.UTC {
		t.Errorf("%v became %v", at, m.Time())
	}
	if MicrosOf(time.Time{}) != NoTime || NoTime.Known() || !NoTime.Time().IsZero() {
		t.Error("no time is not no time")
	}
}

func TestGapState(t *testing.T) {
	t.Parallel()
	for state, open := range map[GapState]bool{
		GapFound: true, GapWaiting: true, GapPulling: true, GapLagging: true, GapBaseline: true, GapClosed: false, GapUnprovable: false,
	} {
		if state.Open() != open {
			t.Errorf("%s: open %v", state, state.Open())
		}
	}
}

func TestWantFor(t *testing.T) {
	t.Parallel()
	r := Resource{Wants: []Want{{SetID: 1}, {SetID: 2}}}
	if w := r.WantFor(2); w != &r.Wants[1] {
		t.Errorf("want of set 2 is %v", w)
	}
	if w := r.WantFor(3); w != nil {
		t.Errorf("want of set 3 is %v", w)
	}
}
