package merge

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/store"
)

// span is a version that is a range.
func span(from, until store.Micros, document, ordinal int64) store.Version {
	return store.Version{From: from, Until: until, Document: document, Ordinal: ordinal}
}

func TestRelate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		a, b store.Version
		want Order
	}{
		{"instants, other documents", at(10, 1, 9), at(11, 2, 0), Older},
		{"equal instants, other documents", at(10, 1, 9), at(10, 2, 0), Unordered},
		{"equal instants, one document", at(10, 1, 3), at(10, 1, 4), Older},
		{"instant before place", at(10, 1, 9), at(11, 1, 3), Older},
		{"the entry itself", at(10, 1, 3), at(10, 1, 3), SamePlace},
		{"the entry itself, read later", span(10, 90, 1, 3), span(10, 50, 1, 3), SamePlace},
		{"disjoint ranges", span(10, 20, 1, 0), span(21, 30, 2, 0), Older},
		{"ranges that share an instant", span(10, 20, 1, 0), span(20, 30, 2, 0), Unordered},
		{"overlapping ranges, one document", span(10, 20, 1, 5), span(10, 20, 1, 6), Older},
		{"a range and the instant it begins with", at(10, 1, 5), span(10, 20, 1, 6), Older},
		{"no document", at(10, 0, 5), at(10, 0, 6), Unordered},
	} {
		if got := Relate(tt.a, tt.b); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
		back := map[Order]Order{Older: Newer, Newer: Older}[tt.want]
		if back == Unordered {
			back = tt.want
		}
		if got := Relate(tt.b, tt.a); got != back {
			t.Errorf("%s, the other way round: got %d, want %d", tt.name, got, back)
		}
	}
}

// TestRelateOneDocument: within a document the order is total, whatever its entries.
func TestRelateOneDocument(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		stamps := rapid.SliceOfN(genStamp(), 3, 3).Draw(t, "stamps")
		for i := range stamps {
			stamps[i].Ordinal = int64(i)
		}
		v := NewPlacer(PlacerHead{From: 10, Until: store.NoTime, Read: 60, Document: 1}).Place(stamps)
		if Relate(v[0], v[1]) == Unordered {
			t.Fatalf("unordered: %v", v)
		}
		for i := range v {
			a, b, c := v[i], v[(i+1)%3], v[(i+2)%3]
			if Relate(a, b) == Older && Relate(b, c) == Older && Relate(a, c) != Older {
				t.Fatalf("not transitive: %v", v)
			}
		}
	})
}

func genStamp() *rapid.Generator[Stamp] {
	instant := rapid.SampledFrom([]store.Micros{store.NoTime, store.NoTime, 5, 10, 20, 30, 30, 40, 50, 60, Skew + 100})
	return rapid.Custom(func(t *rapid.T) Stamp {
		return Stamp{Datetime: instant.Draw(t, "datetime"), LastMod: instant.Draw(t, "lastmod"), Deleted: rapid.Bool().Draw(t, "deleted")}
	})
}

func TestMerge(t *testing.T) {
	t.Parallel()
	const no = store.NoTime
	const present, absent, ask = store.WantPresent, store.WantAbsent, store.WantAsk
	row := func(s store.WantState, v store.Version, digests string) *store.Want {
		return &store.Want{State: s, Version: v, Digests: digests, Length: -1, LastMod: no}
	}
	settled := func(w *store.Want) *store.Want { w.Settled = true; return w }
	cand := func(s store.WantState, v store.Version, digests string) Candidate {
		return Candidate{State: s, Version: v, Digests: digests, Length: -1, LastMod: no}
	}
	for _, tt := range []struct {
		name  string
		row   *store.Want
		floor store.Micros
		cand  Candidate
		want  Decision
	}{
		{"first of all", nil, no, cand(present, at(10, 1, 0), ""), Replace},
		{"first tombstone", nil, no, cand(absent, at(10, 1, 0), ""), Replace},
		{"older than the floor", nil, 100, cand(present, at(99, 1, 0), ""), Ignore},
		{"a range that ends before the floor", nil, 100, cand(present, span(9, 99, 1, 0), ""), Ignore},
		{"new after the floor", nil, 100, cand(present, at(101, 1, 0), ""), Replace},
		{"at the floor, not listed by the baseline", nil, 100, cand(present, at(100, 1, 0), ""), Ask},
		{"deleted at the floor, not listed", nil, 100, cand(absent, at(100, 1, 0), ""), Repeat},
		{"deleted around the floor, not listed", nil, 100, cand(absent, span(90, 110, 1, 0), ""), Replace},
		{"no want of this set yet", &store.Want{}, no, cand(present, at(10, 1, 0), ""), Replace},
		{"newer", row(present, at(10, 1, 0), "md5:a"), no, cand(present, at(11, 2, 0), "md5:a"), Replace},
		{"older", row(present, at(10, 1, 0), "md5:a"), no, cand(absent, at(9, 2, 0), ""), Ignore},
		{"a tombstone keeps the dead down", row(absent, at(10, 1, 0), ""), no, cand(present, at(9, 2, 0), ""), Ignore},
		{"repeated", row(present, at(10, 1, 0), "md5:a"), no, cand(present, at(10, 1, 0), "md5:a"), Repeat},
		{"rewritten in place", row(present, at(10, 1, 0), "md5:a"), no, cand(present, at(10, 1, 0), "md5:b"), Ask},
		{"equal instant, later place", row(present, at(10, 1, 0), "md5:a"), no, cand(absent, at(10, 1, 1), ""), Replace},
		{"equal instant, earlier place", row(absent, at(10, 1, 1), ""), no, cand(present, at(10, 1, 0), "md5:a"), Ignore},
		{"equal instant, other document, same hash", row(present, at(10, 1, 0), "md5:a"), no, cand(present, at(10, 2, 0), "md5:a"), Repeat},
		{"equal instant, other document, no hash", row(present, at(10, 1, 0), ""), no, cand(present, at(10, 2, 0), "md5:a"), Repeat},
		{"equal instant, other document, other hash", row(present, at(10, 1, 0), "md5:a"), no, cand(present, at(10, 2, 0), "md5:b"), Ask},
		{"equal instant, there and gone", row(present, at(10, 1, 0), "md5:a"), no, cand(absent, at(10, 2, 0), ""), Ask},
		{"overlapping range, no hash", row(present, at(10, 1, 0), ""), no, cand(present, span(5, 15, 2, 0), ""), Ask},
		{"narrower range, same hash", row(present, span(5, 15, 1, 0), "md5:a"), no, cand(present, at(10, 2, 0), "md5:a"), Repeat},
		{"a longer range, both gone", row(absent, at(10, 1, 0), ""), no, cand(absent, span(5, 15, 2, 0), ""), Replace},
		{"a shorter range, both gone", row(absent, at(10, 1, 0), ""), no, cand(absent, span(5, 10, 2, 0), ""), Repeat},
		{"raised by the floor, change at A, same hash", row(present, at(10, 1, 0), "md5:a"), 100, cand(present, at(100, 2, 0), "md5:a"), Repeat},
		{"raised by the floor, change at A, no hash", row(present, at(10, 1, 0), ""), 100, cand(present, at(100, 2, 0), ""), Ask},
		{"raised by the floor, change at A, gone", row(present, at(10, 1, 0), "md5:a"), 100, cand(absent, at(100, 2, 0), ""), Ask},
		{"raised by the floor, change after A", row(present, at(10, 1, 0), "md5:a"), 100, cand(absent, at(101, 2, 0), ""), Replace},
		{"settled", settled(row(absent, span(10, 20, 1, 0), "")), no, cand(present, at(15, 2, 0), "md5:a"), Ignore},
		{"settled, the same", settled(row(absent, span(10, 20, 1, 0), "")), no, cand(absent, at(15, 2, 0), ""), Repeat},
		{"settled, later place of the document", settled(row(absent, span(10, 20, 1, 0), "")), no, cand(present, at(15, 1, 7), "md5:a"), Ignore},
		{"settled, earlier place of the document", settled(row(absent, span(10, 20, 1, 3), "")), no, cand(present, span(10, 90, 1, 2), "md5:a"), Repeat},
		{"contested, later place of the document", row(ask, span(10, 20, 1, 3), ""), no, cand(present, span(10, 20, 1, 4), "md5:a"), Ask},
		{"settled, the entry that was asked about", settled(row(absent, span(10, 20, 1, 3), "")), no, cand(present, span(10, 90, 1, 3), "md5:a"), Repeat},
		{"settled, may be newer", settled(row(absent, span(10, 20, 1, 0), "")), no, cand(present, span(15, 25, 2, 0), "md5:a"), Ask},
		{"settled, is newer", settled(row(absent, span(10, 20, 1, 0), "")), no, cand(present, at(21, 2, 0), "md5:a"), Replace},
		{"contested, one more", row(ask, span(10, 20, 1, 0), ""), no, cand(present, at(15, 2, 0), "md5:a"), Repeat},
		{"contested, may be newer", row(ask, span(10, 20, 1, 0), ""), no, cand(present, span(15, 25, 2, 0), "md5:a"), Ask},
		{"contested, is newer", row(ask, span(10, 20, 1, 0), ""), no, cand(present, at(21, 2, 0), "md5:a"), Replace},
		{"contested, is older", row(ask, span(10, 20, 1, 0), ""), no, cand(present, at(9, 2, 0), "md5:a"), Ignore},
	} {
		if got := Merge(tt.row, nil, Floor{At: tt.floor}, tt.cand); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestMergeBaseline(t *testing.T) {
	t.Parallel()
	const no = store.NoTime
	row := func(s store.WantState, v store.Version, digests string, lastmod store.Micros) *store.Want {
		return &store.Want{State: s, Version: v, Digests: digests, Length: -1, LastMod: lastmod}
	}
	const read = int64(9) << readingShift
	listed := func(digests string, lastmod store.Micros) Candidate {
		return Candidate{State: store.WantPresent, Version: at(100, 7, 4|read), Digests: digests, Length: -1, LastMod: lastmod}
	}
	const present, absent = store.WantPresent, store.WantAbsent
	for _, tt := range []struct {
		name  string
		row   *store.Want
		floor store.Micros
		cand  Candidate
		reset bool
		want  Decision
	}{
		{"new", nil, no, listed("", no), false, Replace},
		{"same hash", row(present, at(10, 1, 0), "md5:a", no), 50, listed("md5:a", no), false, Repeat},
		{"other hash", row(present, at(10, 1, 0), "md5:a", no), 50, listed("md5:b", no), false, Replace},
		{"same lastmod", row(present, at(10, 1, 0), "", 3), 50, listed("", 3), false, Repeat},
		{"other lastmod", row(present, at(10, 1, 0), "", 3), 50, listed("", 4), false, Replace},
		{"a hash where there was none", row(present, at(10, 1, 0), "", no), 50, listed("md5:a", no), false, Replace},
		{"nothing to compare by", row(present, at(10, 1, 0), "", no), 50, listed("", no), false, Replace},
		{"was gone", row(absent, at(10, 1, 0), "", no), 50, listed("md5:a", no), false, Replace},
		{"changed after at", row(present, at(101, 1, 0), "md5:a", no), 50, listed("md5:b", no), false, Ignore},
		{"gone after at", row(absent, at(101, 1, 0), "", no), 50, listed("md5:b", no), false, Ignore},
		{"changed at at", row(present, at(100, 1, 0), "md5:a", no), 50, listed("md5:b", no), false, Ask},
		{"may have changed after at", row(present, span(90, 110, 1, 0), "md5:a", no), 50, listed("md5:b", no), false, Ask},
		{"listed twice, nothing told", row(present, at(100, 7, 3|read), "", no), 50, listed("", no), false, Replace},
		{"listed twice, the later place wins", row(present, at(100, 7, 3|read), "md5:a", no), 50, listed("md5:b", no), false, Replace},
		{"listed twice in different parts", row(present, at(100, 6, 3|read), "md5:a", no), 50, listed("md5:b", no), false, Ask},
		{"contested before", row(store.WantAsk, span(20, 30, 1, 0), "", no), 10, listed("md5:b", no), false, Replace},
		{"reset: the list rules", row(present, at(500, 1, 0), "md5:a", no), 200, listed("md5:b", no), true, Replace},
		{"reset: even the same gets the older version", row(present, at(500, 1, 0), "md5:a", no), 200, listed("md5:a", no), true, Replace},
		{"reset: the same and old enough", row(present, at(90, 1, 0), "md5:a", no), 200, listed("md5:a", no), true, Repeat},
	} {
		if got := MergeBaseline(tt.row, nil, Floor{At: tt.floor}, tt.cand, Reading{At: 100, Trusted: true, Reset: tt.reset}); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
	for _, tt := range []struct {
		name string
		row  *store.Want
		want Decision
	}{
		{"older", row(present, at(10, 1, 0), "", no), Replace},
		{"newer", row(present, at(101, 1, 0), "", no), Ignore},
		{"changed at at", row(present, at(100, 1, 0), "", no), Ask},
		{"may be newer", row(present, span(90, 110, 1, 0), "", no), Ask},
		{"gone", row(absent, at(10, 1, 0), "", no), Repeat},
	} {
		if got := MergeUnlisted(tt.row, Floor{At: 50}, Reading{At: 100, Trusted: true}); got != tt.want {
			t.Errorf("unlisted, %s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestOnlyComparableIsCompared: what no common measure decides is asked, and what differs is never passed over.
func TestOnlyComparableIsCompared(t *testing.T) {
	t.Parallel()
	const no, a, b = store.NoTime, "sha-256:aa", "sha-256:bb"
	const earlier, now = int64(8) << readingShift, int64(9) << readingShift
	row := func(v store.Version, generation int64, digests string) *store.Want {
		return &store.Want{State: store.WantPresent, Version: v, Generation: generation, Digests: digests, Length: -1, LastMod: no}
	}
	cand := func(v store.Version, digests string) Candidate {
		return Candidate{State: store.WantPresent, Version: v, Digests: digests, Length: -1, LastMod: no}
	}
	for _, tt := range []struct {
		name  string
		row   *store.Want
		floor Floor
		cand  Candidate
		want  Decision
	}{
		{"moved up in a pruned list", row(at(10, 1, 4|earlier), 0, a), Floor{At: no}, cand(at(10, 1, 0|now), b), Ask},
		{"the same place at another reading", row(at(10, 1, 4|earlier), 0, a), Floor{At: no}, cand(at(10, 1, 4|now), b), Ask},
		{"the same at another reading", row(at(10, 1, 4|earlier), 0, a), Floor{At: no}, cand(at(10, 1, 0|now), a), Repeat},
		{"a second that was cut, against its fraction", row(at(5*Second+400, 1, 0), 0, a), Floor{At: no}, cand(at(5*Second, 2, 0), b), Ask},
		{"below a floor that was cut", row(at(Second, 1, 0), 3, a), Floor{At: 5*Second + 400}, cand(at(5*Second, 2, 0), b), Ask},
		{"below an estimated floor", row(at(Second, 1, 0), 3, a), Floor{At: 100 * Second, Estimated: true}, cand(at(50*Second, 2, 0), b), Ask},
		{"below an estimated floor, nothing to compare by", row(at(Second, 1, 0), 3, ""), Floor{At: 100 * Second, Estimated: true}, cand(at(50*Second, 2, 0), b), Ask},
		{"below an estimated floor, not listed", nil, Floor{At: 100 * Second, Estimated: true}, cand(at(50*Second, 2, 0), b), Ask},
		{"below a proven floor", row(at(Second, 1, 0), 3, a), Floor{At: 100 * Second}, cand(at(50*Second, 2, 0), b), Ignore},
	} {
		if got := Merge(tt.row, nil, tt.floor, tt.cand); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
	settled := row(at(50, 1, 0), 0, "")
	settled.Settled = true
	for _, tt := range []struct {
		name string
		row  *store.Want
		r    Reading
		want Decision
	}{
		{"a later reading of a list whose time stayed", row(at(100, 7, 9|earlier), 3, a), Reading{At: 100}, Replace},
		{"of a part with an older time than another", row(at(200, 6, 9|earlier), 3, a), Reading{At: 100, Trusted: true}, Replace},
		{"of a list whose time went back", row(at(200, 7, 9|earlier), 3, a), Reading{At: 100, Back: true}, Ask},
		{"a change before the time of a list that does not vouch for it", row(at(50, 1, 0), 0, a), Reading{At: 100}, Ask},
		{"a change after the time of a list that does not vouch for it", row(at(150, 1, 0), 0, a), Reading{At: 100}, Ask},
		{"a change after the time of a list that does", row(at(150, 1, 0), 0, a), Reading{At: 100, Trusted: true}, Ignore},
		{"the same, asked for in full", row(at(150, 1, 0), 0, a), Reading{At: 100, Trusted: true, Full: true}, Ask},
		{"settled earlier, the list vouches for nothing", settled, Reading{At: 100}, Ask},
		{"settled earlier, the list is newer", settled, Reading{At: 100, Trusted: true}, Replace},
	} {
		c := cand(at(tt.r.At, 7, 0|now), b)
		if got := MergeBaseline(tt.row, nil, Floor{At: 40}, c, tt.r); got != tt.want {
			t.Errorf("baseline, %s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestContest(t *testing.T) {
	t.Parallel()
	row := store.Want{SetID: 1, State: store.WantPresent, Version: span(10, 50, 1, 2), Digests: "md5:a", Length: 3, LastMod: 4}
	want := store.Want{SetID: 1, State: store.WantAsk, Version: span(20, 50, 2, 5), Length: -1, LastMod: store.NoTime}
	gone := Candidate{State: store.WantAbsent, Version: at(20, 2, 5), Length: -1, LastMod: store.NoTime}
	if diff := cmp.Diff(want, gone.Contest(&row, store.NoTime, 1)); diff != "" {
		t.Errorf("there against gone (-want +got):\n%s", diff)
	}
	other := Candidate{State: store.WantPresent, Version: span(40, 60, 2, 5), Digests: "md5:b", Length: 3, LastMod: 4}
	want.Version = span(55, 60, 2, 5)
	if diff := cmp.Diff(want, other.Contest(&row, 55, 1)); diff != "" {
		t.Errorf("two contents (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, other.Contest(nil, 55, 1)); diff != "" {
		t.Errorf("no row (-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		asked, until store.Micros
		settled      bool
	}{{61, 60, true}, {60, 59, true}, {57, 56, true}, {56, 55, true}, {55, 55, false}, {10, 55, false}} {
		w, version := Settle(want, false, tt.asked), span(55, tt.until, 2, 5)
		if !tt.settled {
			version.Document, version.Ordinal = 0, 0
		}
		if w.State != store.WantAbsent || w.Settled != tt.settled || w.Version != version {
			t.Errorf("asked at %d: %+v", tt.asked, w)
		}
	}
}
