package merge

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/store"
)

func between(from, until store.Micros) store.Interval {
	return store.Interval{From: from, Until: until}
}

func TestPlacer(t *testing.T) {
	t.Parallel()
	const no = store.NoTime
	dt := func(m store.Micros) Stamp { return Stamp{Datetime: m, LastMod: 1} }
	lm := func(m store.Micros) Stamp { return Stamp{Datetime: no, LastMod: m} }
	del := func(m store.Micros) Stamp { return Stamp{Datetime: no, LastMod: m, Deleted: true} }
	none := lm(no)
	closed, open := PlacerHead{From: 10, Until: 50, Read: 90}, PlacerHead{From: 10, Until: no, Read: 60}
	const read = 60 + 999_999
	for _, tt := range []struct {
		name string
		head PlacerHead
		in   []Stamp
		want []store.Interval
		last store.Micros
	}{
		{"1.1", closed, []Stamp{dt(20), dt(30)}, []store.Interval{between(20, 20), between(30, 30)}, 30},
		{"undated between, before and after", closed, []Stamp{none, dt(20), none, none, dt(30), none},
			[]store.Interval{between(10, 20), between(20, 20), between(20, 30), between(20, 30), between(30, 30), between(30, 50)}, 30},
		{"undated at the end of an open list", open, []Stamp{dt(20), none}, []store.Interval{between(20, 20), between(20, read)}, 20},
		{"nothing dated", open, []Stamp{none, none}, []store.Interval{between(10, read), between(10, read)}, no},
		{"1.0: lastmod is the instant", closed, []Stamp{lm(20), lm(20), lm(30)}, []store.Interval{between(20, 20), between(20, 20), between(30, 30)}, 30},
		{"a datetime anywhere: lastmod tells nothing", closed, []Stamp{lm(20), dt(30)}, []store.Interval{between(10, 30), between(30, 30)}, 30},
		{"1.0, not in order", closed, []Stamp{lm(30), lm(20)}, []store.Interval{between(10, 50), between(10, 50)}, no},
		{"1.0, before from", closed, []Stamp{lm(5), lm(20)}, []store.Interval{between(10, 50), between(10, 50)}, no},
		{"1.0, after until", closed, []Stamp{lm(20), lm(51)}, []store.Interval{between(10, 50), between(10, 50)}, no},
		{"1.0: a deletion with the file's old time", closed, []Stamp{lm(20), del(15), lm(30)},
			[]store.Interval{between(20, 20), between(20, 30), between(30, 30)}, 30},
		{"1.0: a deletion in order happened then or later", closed, []Stamp{lm(20), del(25), lm(30), del(40)},
			[]store.Interval{between(20, 20), between(25, 30), between(30, 30), between(40, 50)}, 40},
		{"a datetime outside stretches nothing", closed, []Stamp{dt(20), dt(5), none, dt(99), dt(30)},
			[]store.Interval{between(20, 20), between(5, 5), between(20, 30), between(99, 99), between(30, 30)}, 30},
		{"out of order", closed, []Stamp{dt(30), none, dt(20), none}, []store.Interval{between(30, 30), between(30, 30), between(20, 20), between(30, 50)}, 30},
		{"an invented future proves nothing", open, []Stamp{dt(20), dt(61 + Skew)}, []store.Interval{between(20, 20), between(20, read)}, 20},
		{"an invented from proves nothing", PlacerHead{From: 61 + Skew, Until: no, Read: 60}, []Stamp{dt(62 + Skew), dt(20)}, []store.Interval{between(store.Beginning, 20), between(20, 20)}, 20},
		{"an invented until proves nothing", PlacerHead{From: 10, Until: 61 + Skew, Read: 60}, []Stamp{none}, []store.Interval{between(10, read)}, no},
		{"no from", PlacerHead{From: no, Until: no, Read: 60}, []Stamp{none, dt(20)}, []store.Interval{between(store.Beginning, 20), between(20, 20)}, 20},
		{"no time at all", PlacerHead{From: no, Until: no, Read: no}, []Stamp{none}, []store.Interval{between(store.Beginning, store.Forever)}, no},
	} {
		for i := range tt.in {
			tt.in[i].Ordinal = int64(i)
		}
		p := NewPlacer(tt.head)
		var got []store.Interval
		for i, v := range p.Place(tt.in) {
			got = append(got, between(v.From, v.Until))
			if v.Ordinal != int64(i) {
				t.Errorf("%s: ordinal %d", tt.name, v.Ordinal)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if p.Last() != tt.last {
			t.Errorf("%s: last %d, want %d", tt.name, p.Last(), tt.last)
		}
	}
}

// TestPlacerLaws: ranges are never inverted, an undated entry never looks older than one before it, and reading in
// chunks only widens ranges once the style is known.
func TestPlacerLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(genStamp(), 0, 12).Draw(t, "entries")
		for i := range in {
			in[i].Ordinal = int64(i)
		}
		head := PlacerHead{From: 10, Until: rapid.SampledFrom([]store.Micros{store.NoTime, 55}).Draw(t, "until"), Read: 60, Document: 1}
		p := NewPlacer(head)
		got := p.Place(in)
		for i, v := range got {
			if v.From > v.Until {
				t.Fatalf("inverted: %v", v)
			}
			if p.Last().Known() && (p.Last() < head.From || p.Last() > p.limit) {
				t.Fatalf("last %d lies outside", p.Last())
			}
			if in[i].Datetime.Known() && in[i].Datetime <= head.Read+Skew && (v.From != in[i].Datetime || v.Until != v.From) {
				t.Fatalf("%v placed at %v", in[i], v)
			}
			for j := range got[:i] {
				outside := got[j].From > p.limit || got[j].From < head.From
				if !in[i].Datetime.Known() && !outside && Relate(v, got[j]) != Newer {
					t.Fatalf("entry %d %v is not newer than %d %v", i, v, j, got[j])
				}
			}
		}
		cut := rapid.IntRange(0, len(in)).Draw(t, "cut")
		if !slices.ContainsFunc(in[:cut], func(s Stamp) bool { return s.Datetime.Known() }) {
			return
		}
		chunks := NewPlacer(head)
		parts := append(chunks.Place(in[:cut]), chunks.Place(in[cut:])...)
		for i := range parts {
			if parts[i].From != got[i].From || parts[i].Until < got[i].Until {
				t.Fatalf("entry %d: %v in chunks, %v at once", i, parts[i], got[i])
			}
		}
	})
}
