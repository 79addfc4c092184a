package coverage

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/store"
)

func iv(from, until store.Micros) store.Interval { return store.Interval{From: from, Until: until} }

// input is one thing that a coverage learns.
type input struct {
	kind string // doc, note, base
	iv   store.Interval
}

func (c *Coverage) take(in input) {
	switch in.kind {
	case "doc":
		c.AddDocument(in.iv)
	case "note":
		c.AddNotification(in.iv, store.Forever)
	case "base":
		c.AddBaseline(in.iv.From)
	}
}

func TestCoverage(t *testing.T) {
	t.Parallel()
	base := func(a store.Micros) input { return input{"base", iv(a, a)} }
	doc := func(f, u store.Micros) input { return input{"doc", iv(f, u)} }
	note := func(f, u store.Micros) input { return input{"note", iv(f, u)} }
	tests := []struct {
		name          string
		in            []input
		proven, joint store.Micros
		holes         []store.Interval
	}{
		{"nothing", nil, store.NoTime, store.NoTime, nil},
		{"no floor, no position", []input{doc(5, 9)}, store.NoTime, store.NoTime, nil},
		{"baseline covers up to A - 1 us", []input{base(100)}, 99, 99, nil},
		{"and joins a list that begins at A", []input{base(100), doc(100, 120)}, 120, 120, nil},
		{"or before", []input{base(100), doc(50, 120)}, 120, 120, nil},
		{"but not one that begins after", []input{base(100), doc(101, 120)}, 99, 99, []store.Interval{iv(99, 101)}},
		{"lists join where they touch", []input{base(100), doc(100, 120), doc(120, 140), doc(141, 150)}, 150, 150, nil},
		{"a list before the floor adds nothing", []input{base(100), doc(10, 20)}, 99, 99, nil},
		{"an empty interval adds nothing", []input{base(100), doc(100, 99)}, 99, 99, nil},
		{"a late list closes the hole", []input{base(100), doc(120, 140), doc(100, 120)}, 140, 140, nil},
		{"notification overlaps a list", []input{base(100), doc(100, 120), note(119, 130)}, 120, 130, nil},
		{
			"notification only touches a list", []input{base(100), doc(100, 120), note(120, 130)},
			120, 120, []store.Interval{iv(120, 120)},
		},
		{"notifications touch", []input{base(100), note(90, 120), note(120, 130), note(131, 140)}, 99, 140, nil},
		{"notification touches the baseline", []input{base(100), note(100, 120)}, 99, 99, []store.Interval{iv(99, 100)}},
		{"notification begins in the last covered instant", []input{base(100), note(99, 120)}, 99, 120, nil},
		{"a list behind a pushed hole", []input{base(100), note(50, 110), doc(105, 120), note(115, 130)}, 99, 130, []store.Interval(nil)},
		{"a lost notification is a hole", []input{base(100), note(50, 110), note(120, 130)}, 99, 110, []store.Interval{iv(110, 120)}},
		{"baseline fills it", []input{base(100), note(50, 110), note(120, 130), base(125)}, 124, 130, nil},
		{"an older baseline adds nothing", []input{base(100), doc(100, 110), base(90)}, 110, 110, nil},
		{"a baseline below the position keeps it", []input{base(100), doc(100, 200), base(150)}, 200, 200, nil},
	}
	for _, tt := range tests {
		c := Coverage{Floor: store.NoTime}
		for _, in := range tt.in {
			c.take(in)
		}
		if c.ProvenPosition() != tt.proven || c.Position() != tt.joint {
			t.Errorf("%s: proven %d, joint %d; want %d, %d", tt.name, c.ProvenPosition(), c.Position(), tt.proven, tt.joint)
		}
		if diff := cmp.Diff(tt.holes, c.holes(c.Joint)); diff != "" {
			t.Errorf("%s: holes (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestCoverageLimit(t *testing.T) {
	t.Parallel()
	c := Coverage{Floor: store.NoTime}
	c.StartAt(100)
	c.AddNotification(iv(90, 1000), 150)
	c.AddNotification(iv(160, 1000), 150)
	c.AddNotification(iv(90, 1000), store.NoTime)
	if c.Position() != 150 || len(c.holes(c.Joint)) != 0 {
		t.Errorf("an invented until moved the position to %d, holes %v", c.Position(), c.holes(c.Joint))
	}
	c.StartAt(500)
	if c.Floor != 100 {
		t.Error("StartAt moved a floor")
	}
	c.Reset(50)
	if c.Floor != 50 || c.Position() != 49 || c.ProvenPosition() != 49 {
		t.Errorf("after a reset: %+v", c)
	}
	c.AddDocument(iv(60, 70))
	hole, ok := c.FirstHole()
	if !ok || hole != iv(49, 60) {
		t.Errorf("hole %v %v", hole, ok)
	}
	c.AddDocument(hole)
	if _, ok := c.FirstHole(); ok || c.ProvenPosition() != 70 || c.Position() != 70 || !within(iv(60, 70), c.wide(c.Proven)) || within(iv(60, 71), c.wide(c.Proven)) {
		t.Errorf("after it was given up: %+v", c)
	}
	c.AddNotification(iv(70, 80), store.Forever)
	if c.Position() != 70 {
		t.Errorf("position %d", c.Position())
	}
	c.Accept(iv(70, 75))
	if c.Position() != 80 || c.ProvenPosition() != 70 {
		t.Errorf("after Accept: %+v", c)
	}
}

func TestOpenList(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ from, last, until store.Micros }{
		{10, store.NoTime, 10}, {10, 20, 19}, {10, 11, 10}, {10, 10, 9}, {10, 5, 10},
	} {
		if got := OpenList(tt.from, tt.last); got != iv(min(tt.from, tt.until), tt.until) {
			t.Errorf("OpenList(%d, %d) = %v, want until %d", tt.from, tt.last, got, tt.until)
		}
	}
}

func genInputs(t *rapid.T, kinds ...string) []input {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) input {
		from := store.Micros(rapid.IntRange(0, 60).Draw(t, "from"))
		return input{rapid.SampledFrom(kinds).Draw(t, "kind"), iv(from, from+store.Micros(rapid.IntRange(0, 15).Draw(t, "length")))}
	}), 0, 14).Draw(t, "inputs")
}

// checkShape holds what every reader of a coverage relies on.
func checkShape(t *rapid.T, c Coverage) {
	t.Helper()
	for _, list := range [][]store.Interval{c.Proven, c.Joint} {
		for i, v := range list {
			if v.From > v.Until || i > 0 && v.From < list[i-1].Until || c.Floor.Known() && v.From < c.Floor-1 {
				t.Fatalf("bad list %v, floor %d", list, c.Floor)
			}
		}
	}
	for _, p := range c.Proven {
		if !within(p, c.Joint) {
			t.Fatalf("proven %v is not in joint %v", p, c.Joint)
		}
	}
	if c.Floor.Known() && (c.Proven[0].From != c.Floor-1 || c.Position() < c.ProvenPosition()) {
		t.Fatalf("position below proven: %+v", c)
	}
}

// TestCoverageOrder: what documents prove is the same in any order and repetition, and equals a model that marks instants.
func TestCoverageOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := genInputs(t, "doc", "doc", "base")
		a, b := Coverage{Floor: store.NoTime}, Coverage{Floor: store.NoTime}
		for _, x := range in {
			a.take(x)
			checkShape(t, a)
		}
		for _, x := range rapid.Permutation(append(slices.Clone(in), in...)).Draw(t, "order") {
			b.take(x)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("order matters (-one +other):\n%s", diff)
		}
		var known [100]bool
		for _, x := range in {
			for m := range known {
				at := store.Micros(m)
				known[m] = known[m] || x.kind == "base" && at < x.iv.From || x.kind == "doc" && x.iv.From <= at && at <= x.iv.Until
			}
		}
		if a.Floor.Known() {
			want := a.Floor - 1
			for want+1 < 100 && known[want+1] {
				want++
			}
			if a.ProvenPosition() != want {
				t.Fatalf("proven position %d, model %d", a.ProvenPosition(), want)
			}
		}
	})
}

// exactJoint is the joint position by its definition: components of notifications that touch and documents, joined where
// they share more than an instant.
func exactJoint(in []input, floor store.Micros) store.Micros {
	parts := []input{{"doc", iv(store.Beginning, floor-1)}}
	for _, x := range in {
		if x.kind == "base" {
			continue
		}
		if x.iv.From < floor {
			x.iv.From = store.Beginning
		}
		parts = append(parts, x)
	}
	parts = components(parts)
	in1 := make([]bool, len(parts))
	in1[0] = true
	for changed := true; changed; {
		changed = false
		for i, a := range parts {
			for j, b := range parts {
				lo, hi := max(a.iv.From, b.iv.From), min(a.iv.Until, b.iv.Until)
				if in1[i] && !in1[j] && (lo < hi || a.kind == b.kind && lo-1 <= hi) {
					in1[j], changed = true, true
				}
			}
		}
	}
	end := floor - 1
	for i, p := range parts {
		if in1[i] {
			end = max(end, p.iv.Until)
		}
	}
	return end
}

// components makes one of documents that touch, and one of notifications that do. The first one stays the first.
func components(parts []input) []input {
	for i := 0; i < len(parts); i++ {
		for j := i + 1; j < len(parts); j++ {
			a, b := &parts[i], parts[j]
			if a.kind == b.kind && max(a.iv.From, b.iv.From)-1 <= min(a.iv.Until, b.iv.Until) {
				a.iv.From, a.iv.Until = min(a.iv.From, b.iv.From), max(a.iv.Until, b.iv.Until)
				parts = slices.Delete(parts, j, j+1)
				i = -1 // anew: it may touch others now
				break
			}
		}
	}
	return parts
}

// TestCoverageJoint: the joint position never claims more than the definition allows, in any order, and exactly that
// unless an end of a notification coincides with an end of a document (which then counts as the document's).
func TestCoverageJoint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := genInputs(t, "doc", "note", "note")
		floor := store.Micros(rapid.IntRange(0, 30).Draw(t, "floor"))
		c := Coverage{Floor: store.NoTime}
		c.StartAt(floor)
		for _, x := range in {
			before := c.Position()
			c.take(x)
			checkShape(t, c)
			if c.Position() < before {
				t.Fatalf("position fell from %d to %d", before, c.Position())
			}
			once := c
			c.take(x)
			if diff := cmp.Diff(once, c); diff != "" {
				t.Fatalf("a repetition changed something:\n%s", diff)
			}
		}
		exact := exactJoint(in, floor)
		if c.Position() > exact {
			t.Fatalf("position %d, the definition gives %d: %v", c.Position(), exact, in)
		}
		ends := map[store.Micros]int{floor - 2: 1, floor - 1: 1, floor: 1} // what was before the floor ends like a document
		for _, x := range in {
			bit := 1
			if x.kind == "note" {
				bit = 2
			}
			for d := store.Micros(-1); d <= 1; d++ {
				ends[x.iv.From+d] |= bit
				ends[x.iv.Until+d] |= bit
			}
		}
		for _, bits := range ends {
			if bits == 3 {
				return
			}
		}
		if c.Position() != exact {
			t.Fatalf("position %d, want %d: %v", c.Position(), exact, in)
		}
	})
}

// TestCoverageProvenMonotone: only Reset lowers the proven position, and a push never moves it (P9).
func TestCoverageProvenMonotone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := Coverage{Floor: store.NoTime}
		for _, x := range genInputs(t, "doc", "note", "base") {
			before, copied := c.ProvenPosition(), Coverage{c.Floor, slices.Clone(c.Proven), slices.Clone(c.Joint)}
			old := c
			c.take(x)
			if c.ProvenPosition() < before || x.kind == "note" && c.ProvenPosition() != before {
				t.Fatalf("%v moved the proven position from %d to %d", x, before, c.ProvenPosition())
			}
			if diff := cmp.Diff(copied, old); diff != "" {
				t.Fatalf("the slices of the caller were written to:\n%s", diff)
			}
		}
	})
}
