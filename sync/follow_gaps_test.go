package sync

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/coverage"
)

// A thousand holes made at random by a hub that drops, doubles and shuffles are all found and closed, without one needless
// baseline (coverage.md 6).
func TestThousandHoles(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a long run")
	}
	holes := usual(1000)
	p := newPusher(t, source.Options{ChangeListSize: 300}, many(20))
	p.taken()
	p.pull(false)
	p.put("begin.txt", "begun")
	p.push()
	p.eventually("quiet", func() bool { return p.same() && p.quiet() })
	baselines := p.theSet().Baselines

	rng := rand.New(rand.NewPCG(1, 2))
	type message struct {
		iv   rsdoc.Interval
		body []byte
	}
	var held []message
	dropped, made := 0, 0
	for i := 0; dropped < holes; i++ {
		for range 1 + rng.IntN(2) {
			name := fmt.Sprintf("n%d.txt", rng.IntN(50))
			if rng.IntN(6) > 0 || !p.src.Delete(name) {
				p.put(name, fmt.Sprint(i, rng.Uint64()))
			}
		}
		changes, iv := p.taken()
		m := message{iv, p.document(iv, changes)}
		switch rng.IntN(5) {
		case 0, 1:
			dropped++
			continue
		case 2: // held back, to come late
			held = append(held, m)
			continue
		case 3:
			p.deliver(m.iv, m.body, true)
		}
		p.deliver(m.iv, m.body, true)
		if made++; made%7 == 0 {
			rng.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
			for _, m := range held {
				p.deliver(m.iv, m.body, true)
			}
			held = nil
		}
		if made%50 == 0 {
			<-time.After(20 * time.Millisecond)
		}
	}
	p.put("end.txt", "ended")
	p.push()
	p.eventually("the mirror equals the Source", p.same)
	p.eventually("quiet", p.quiet)
	for _, g := range p.listed() {
		if g.State != store.GapClosed {
			t.Errorf("left open: %+v", g)
		}
	}
	if n := p.theSet().Baselines - baselines; n != 0 {
		t.Errorf("%d baselines, though the lists cover everything", n)
	}
	if r := p.pull(false); !r.InStep || r.GapsFound != 0 {
		t.Errorf("a pull afterwards: %+v", r)
	}
	p.equal()
}

// A hole that no list covers leads to exactly one baseline (F63).
func TestUncoveredHole(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{ChangeListSize: 5, KeepChangeLists: 1, ListEvery: -1}, many(3))
	baselines := p.theSet().Baselines
	for i := range 40 {
		p.put(fmt.Sprintf("lost%d.txt", i), "lost")
	}
	p.taken()
	p.put("seen.txt", "seen")
	p.push()
	p.eventually("the mirror equals the Source", p.same)
	p.eventually("quiet", p.quiet)
	if n := p.theSet().Baselines - baselines; n != 1 {
		t.Errorf("%d baselines", n)
	}
	gaps := p.listed()
	if len(gaps) == 0 {
		t.Fatal("no gap is listed")
	}
	for _, g := range gaps {
		if g.State != store.GapClosed || g.ClosedBy != coverage.ByBaseline {
			t.Errorf("gap: %+v", g)
		}
	}
}

// A Source whose list lags behind its notifications is asked again before anyone calls for a baseline.
func TestLaggingList(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	baselines := p.theSet().Baselines
	freeze := p.freeze(t)
	p.put("lost.txt", "2")
	p.taken()
	p.put("seen.txt", "3")
	p.push()
	p.eventually("the gap is lagging", func() bool {
		gaps := p.listed()
		return len(gaps) == 1 && gaps[0].State == store.GapLagging
	})
	freeze()
	p.eventually("the mirror equals the Source", p.same)
	p.eventually("quiet", p.quiet)
	if gaps := p.listed(); len(gaps) != 1 || gaps[0].ClosedBy != coverage.ByChangeList {
		t.Errorf("gaps: %+v", gaps)
	}
	if n := p.theSet().Baselines - baselines; n != 0 {
		t.Errorf("%d baselines", n)
	}
}
