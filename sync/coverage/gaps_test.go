package coverage

import (
	"testing"

	"resyncd/store"
)

func TestJudgeGap(t *testing.T) {
	t.Parallel()
	const no = store.NoTime
	closed := func(f, u store.Micros) ListRead { return ListRead{Interval: iv(f, u), Last: no} }
	open := func(f, last store.Micros) ListRead { return ListRead{Interval: OpenList(f, last), Last: last} }
	archived := func(l ListRead) ListRead { l.Archived = true; return l }
	holds := func(l ListRead) ListRead { l.Holds = true; return l }
	unchanged := func(l ListRead) ListRead { l.Unchanged = true; return l }
	// The set has a baseline at 100, a list up to 120 and a notification [150, 160] behind the hole (120, 150).
	full, empty := Hole{iv(120, 150), iv(150, 160), false}, Hole{iv(120, 150), iv(150, 160), true}
	tests := []struct {
		name  string
		hole  Hole
		lists []ListRead
		want  GapVerdict
	}{
		{"no list", full, nil, GapVerdict{store.GapBaseline, "", no}},
		{"closed list covers it", full, []ListRead{closed(110, 155)}, GapVerdict{store.GapClosed, ByChangeList, no}},
		{"a chain covers it", full, []ListRead{closed(120, 140), closed(140, 170)}, GapVerdict{store.GapClosed, ByChangeList, no}},
		{"a chain with a hole", full, []ListRead{closed(120, 130), closed(140, 170)}, GapVerdict{store.GapLagging, "", no}},
		{"the archive closes the chain", full, []ListRead{archived(closed(115, 140)), closed(140, 170)}, GapVerdict{store.GapClosed, ByArchive, no}},
		{"open list with a later entry", full, []ListRead{open(120, 151)}, GapVerdict{store.GapClosed, ByChangeList, no}},
		{"open list not there yet", full, []ListRead{open(120, 140)}, GapVerdict{store.GapLagging, "", no}},
		{"open list holds all that was announced", full, []ListRead{holds(open(110, 145))}, GapVerdict{store.GapClosed, ByChangeList, 160}},
		{"and begins at the end of a document", full, []ListRead{holds(open(120, 145))}, GapVerdict{store.GapClosed, ByChangeList, 160}},
		{"but begins behind the position", full, []ListRead{holds(open(121, 145))}, GapVerdict{store.GapBaseline, "", no}},
		{"an empty notification proves nothing at once", empty, []ListRead{holds(open(110, 115))}, GapVerdict{store.GapLagging, "", no}},
		{"but a list that stays as it is does", empty, []ListRead{unchanged(open(110, 115))}, GapVerdict{store.GapClosed, ByChangeList, 150}},
		{"which means nothing for a full one", full, []ListRead{unchanged(open(110, 115))}, GapVerdict{store.GapLagging, "", no}},
		{"no list reaches back", full, []ListRead{closed(130, 170)}, GapVerdict{store.GapBaseline, "", no}},
	}
	for _, tt := range tests {
		c := Coverage{Floor: no}
		c.AddBaseline(100)
		c.AddDocument(iv(100, 120))
		c.AddNotification(tt.hole.Notice, store.Forever)
		if got := JudgeGap(c, tt.hole, tt.lists); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
		if c.Position() != 120 {
			t.Errorf("%s: the coverage was changed", tt.name)
		}
	}
	// P is the end of a notification: a list that only begins there may miss what a lost one said of that instant.
	c := Coverage{Floor: no}
	c.AddBaseline(100)
	c.AddNotification(iv(90, 120), store.Forever)
	c.AddNotification(iv(150, 160), store.Forever)
	if got := JudgeGap(c, full, []ListRead{holds(open(120, 145))}); got.State != store.GapLagging {
		t.Errorf("got %+v", got)
	}
}

func TestAnnouncements(t *testing.T) {
	t.Parallel()
	x := Announced{"http://h/a", "updated", 10, ""}
	with := func(a Announced, digests string) Announced { a.Digests = digests; return a }
	later, created, undated := x, x, x
	later.Datetime, created.Change, undated.Datetime = 11, "created", store.NoTime
	for _, tt := range []struct {
		name      string
		announced []Announced
		list      []Announced
		want      bool
	}{
		{"found", []Announced{x}, []Announced{later, x, created}, true},
		{"nothing read", []Announced{x}, nil, false},
		{"other instant", []Announced{x}, []Announced{later}, false},
		{"other change", []Announced{x}, []Announced{created}, false},
		{"undated never matches", []Announced{undated}, []Announced{undated}, false},
		{"counted as often", []Announced{x, x}, []Announced{x}, false},
		{"and found as often", []Announced{x, x}, []Announced{x, x}, true},
		{"same hash", []Announced{with(x, "sha-256:aa md5:cc")}, []Announced{with(x, "md5:cc")}, true},
		{"other hash", []Announced{with(x, "md5:aa")}, []Announced{with(x, "md5:bb")}, false},
		{"hash announced, none listed", []Announced{with(x, "md5:aa")}, []Announced{x}, false},
		{"none announced, hash listed", []Announced{x}, []Announced{with(x, "md5:aa")}, true},
		{"with and without", []Announced{x, with(x, "md5:aa")}, []Announced{with(x, "md5:aa"), with(x, "md5:bb")}, true},
	} {
		a := NewAnnouncements(tt.announced)
		for _, e := range tt.list {
			a.Saw(e)
		}
		if a.Complete() != tt.want {
			t.Errorf("%s: complete is %v", tt.name, a.Complete())
		}
	}
}
