package rsdoc

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestInterval(t *testing.T) {
	t.Parallel()
	cases := []struct {
		a, b              Interval
		overlaps, touches bool
	}{
		{Interval{1, 5}, Interval{5, 9}, true, true},
		{Interval{1, 5}, Interval{6, 9}, false, true},
		{Interval{1, 5}, Interval{7, 9}, false, false},
		{Interval{1, 9}, Interval{3, 4}, true, true},
		{Interval{1, 1}, Interval{1, 1}, true, true},
		{Interval{5, 1}, Interval{1, 9}, false, false},
		{Interval{NoTime, 5}, Interval{1, 9}, false, false},
		{Interval{1, NoTime}, Interval{1, 9}, false, false},
		{Interval{1, math.MaxInt64}, Interval{NoTime + 1, 0}, false, true},
		{Interval{5, math.MaxInt64}, Interval{NoTime + 1, 0}, false, false},
	}
	for _, c := range cases {
		for _, p := range [][2]Interval{{c.a, c.b}, {c.b, c.a}} {
			if p[0].Overlaps(p[1]) != c.overlaps || p[0].Touches(p[1]) != c.touches {
				t.Errorf("%v and %v: overlaps %v, touches %v", p[0], p[1], p[0].Overlaps(p[1]), p[0].Touches(p[1]))
			}
		}
	}
	i := Interval{2, 4}
	for m, want := range map[Micros]bool{1: false, 2: true, 3: true, 4: true, 5: false, NoTime: false} {
		if i.Contains(m) != want {
			t.Errorf("%v contains %d: %v", i, m, !want)
		}
	}
}

// Join is the union of the two: it has exactly the instants that either has.
func TestJoinIsUnion(t *testing.T) {
	t.Parallel()
	end := rapid.Int64Range(0, 12)
	rapid.Check(t, func(t *rapid.T) {
		a := Interval{Micros(end.Draw(t, "a")), Micros(end.Draw(t, "b"))}
		b := Interval{Micros(end.Draw(t, "c")), Micros(end.Draw(t, "d"))}
		j, ok := a.Join(b)
		hole := false
		for m := Micros(-1); m <= 13; m++ {
			in := a.Contains(m) || b.Contains(m)
			hole = hole || ok && in != j.Contains(m)
		}
		if hole || ok != a.Touches(b) || ok != j.Valid() {
			t.Fatalf("%v and %v join as %v, %v", a, b, j, ok)
		}
	})
}
