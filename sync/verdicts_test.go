package sync

import (
	"maps"
	"testing"

	"resyncd/destination/peer/source"
	"resyncd/sync/coverage"
)

// The engine's own reading of each notification is what is counted: what it means for the position as it is taken up.
func TestNotified(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	got := map[coverage.Verdict]int{}
	p.stop()
	p.also = func(o *Observer) {
		o.Notified = func(verdict coverage.Verdict, n int) { p.locked(func() { got[verdict] += n }) }
	}
	p.follow()
	want := map[coverage.Verdict]int{}
	expect := func(what string, verdict coverage.Verdict) {
		t.Helper()
		want[verdict]++
		p.eventually(what, func() bool {
			same := false
			p.locked(func() { same = maps.Equal(got, want) })
			return same && p.same() && p.quiet()
		})
	}
	p.put("a.txt", "1")
	p.push()
	expect("the next", coverage.Next)
	p.put("a.txt", "2")
	changes, iv := p.taken()
	late := p.document(iv, changes)
	p.put("b.txt", "1")
	p.push()
	expect("one behind a hole", coverage.Gap)
	p.deliver(iv, late, true)
	expect("what was passed", coverage.Stale)
	p.deliver(iv, append(late, "<!-- not signed -->"...), false)
	expect("one without signature", coverage.Unknown)
}
