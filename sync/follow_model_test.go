package sync

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
)

// Whatever a hub loses, repeats, shuffles and forges, and whenever the daemon is stopped: after calm and one scheduled pull
// the mirror equals the Source, nothing is owed and no gap is open (coverage.md 6, P1, P6, P9).
func TestPushModel(t *testing.T) {
	t.Parallel()
	folder := ramDir(t)
	whole, end := checksAsked(), time.Now().Add(usual(10*time.Second))
	n, failing := 0, false
	rapid.Check(t, func(rt *rapid.T) {
		if !whole && !failing && time.Now().After(end) {
			return // what is left of the checks passes unseen; a failure is shrunk without a limit of ours
		}
		done := false
		defer func() { failing = failing || !done || rt.Failed() }()
		n++
		o := source.Options{ChangeListSize: rapid.SampledFrom([]int{3, 1000}).Draw(rt, "list"), DumpSize: 2}
		dumps := rapid.SampledFrom([]string{"off", "auto", "always"}).Draw(rt, "dumps")
		o.Dumps = dumps != "off"
		p := newPusherIn(rt, fmt.Sprintf("%s/%d", folder, n), o, many(4), func(t *Target) { t.Dumps = dumps })
		defer func() { p.stop() }()
		p.taken()
		p.pull(false)
		type message struct {
			iv   rsdoc.Interval
			body []byte
		}
		var sent, held []message
		name := func() string { return fmt.Sprintf("d%d/r%03d.txt", 0, rapid.IntRange(0, 5).Draw(rt, "name")*3) }
		steps := rapid.IntRange(1, 40).Draw(rt, "steps")
		for i := range steps {
			switch rapid.IntRange(0, 14).Draw(rt, "step") {
			case 0, 1, 2, 3:
				p.put(name(), fmt.Sprint("body ", i))
			case 4:
				p.src.Delete(name())
			case 5, 6, 7: // delivered
				changes, iv := p.taken()
				m := message{iv, p.document(iv, changes)}
				sent = append(sent, m)
				p.deliver(m.iv, m.body, true)
			case 8: // lost
				p.taken()
			case 9: // late
				changes, iv := p.taken()
				held = append(held, message{iv, p.document(iv, changes)})
			case 10: // replayed, or late after all
				if all := append(append([]message{}, sent...), held...); len(all) > 0 {
					m := rapid.SampledFrom(all).Draw(rt, "again")
					p.deliver(m.iv, append(m.body, '\n'), true)
				}
			case 11: // forged, but signed
				_, iv := p.taken()
				at := rsdoc.MicrosOf(time.Now()) + rsdoc.Micros(rapid.IntRange(-1000, 1000).Draw(rt, "at"))
				iv.Until = max(iv.From, at)
				lie := source.Change{URI: p.src.URI(name()), Datetime: at, Length: 3,
					Change: rapid.SampledFrom([]rsdoc.Change{rsdoc.ChangeCreated, rsdoc.ChangeUpdated, rsdoc.ChangeDeleted}).Draw(rt, "change")}
				p.deliver(iv, p.document(iv, []source.Change{lie}), true)
			case 12: // stopped and begun anew
				p.stop()
				p.follow()
				p.later(WorkNotify, time.Now())
			case 13:
				p.pull(rapid.Bool().Draw(rt, "full"))
			case 14: // pulled while a document hangs and pushes come
				way, others := rapid.IntRange(0, waysToHang-1).Draw(rt, "hangs"), rapid.IntRange(0, 6).Draw(rt, "others")
				p.slowPull(p.rig, rapid.Bool().Draw(rt, "full"), way, others, func() bool { return false }, func() {
					for range rapid.IntRange(1, 4).Draw(rt, "pushes") {
						p.put(name(), fmt.Sprint("body ", i, " in between"))
						if changes, iv := p.taken(); rapid.IntRange(0, 3).Draw(rt, "lost") > 0 {
							p.deliver(iv, p.document(iv, changes), true)
						}
					}
					p.notices()
				})
			}
		}
		// Calm. A later change takes the documents beyond whatever was invented.
		<-time.After(2 * time.Millisecond)
		p.put("end.txt", "one")
		<-time.After(time.Millisecond)
		p.put("end.txt", "two")
		p.pull(false)
		p.eventually("the mirror equals the Source", p.same)
		done = true
	})
	t.Logf("%d histories", n)
}
