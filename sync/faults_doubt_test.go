package sync

import (
	"net/http"
	"testing"

	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
)

// What a disk did and did not confirm is looked at before a row is called done with, also in the same Follower, whose
// beginning was clean (F10, P1): the Source may want the very opposite before the step is tried again.
func TestUnconfirmedStep(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ first, then func(p *pusher) }{
		"created, then deleted": {
			first: func(p *pusher) { p.put("fresh.txt", "new") },
			then:  func(p *pusher) { p.src.Delete("fresh.txt") },
		},
		"updated, then back": {
			first: func(p *pusher) { p.put("a.txt", "2") },
			then:  func(p *pusher) { p.put("a.txt", "1") },
		},
		"deleted, then created as it was": {
			first: func(p *pusher) { p.src.Delete("a.txt") },
			then:  func(p *pusher) { p.put("a.txt", "1") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPusher(t, source.Options{}, many(3))
			p.stop()
			disk := &fate{}
			p.tune = func(t *Target) { t.Mirror = fatedMirror{t.Mirror, disk} }
			p.follow()
			p.taken()
			p.pull(false)
			p.put("a.txt", "1")
			p.push()
			p.eventually("quiet", func() bool { return p.same() && p.quiet() })
			disk.strikes(doubtful, 0, 1)
			tc.first(p)
			p.push()
			p.eventually("halted", p.f.rec.IsHalted)
			tc.then(p)
			p.push()
			p.emptied()
			p.eventually("the mirror equals the Source", func() bool { return p.same() && p.quiet() })
		})
	}
}

// A pushed deletion that no document knows, and the Source does not answer to, is asked about: until it is answered the
// file counts again.
func TestTotalsOfAnAskedDeletion(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a.txt", "one"), f.res("/b.txt", "bee")))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`))
	p := f.follow()
	p.pull(false)
	p.eventually("both are here", func() bool { return p.theSet().Resources == 2 })
	f.handle("/a.txt", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusServiceUnavailable) })
	p.told(f, "/a.txt", rsdoc.ChangeDeleted, minute(t, 15), minute(t, 20))
	if n := p.theSet().Resources; n != 1 {
		t.Errorf("%d resources are wanted and here, want 1", n)
	}
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, f.changed("/b.txt", "bees", "updated", 30)))
	p.pull(false)
	f.page("/a.txt", "one")
	p.pull(false)
	p.eventually("the Source denied it", p.quiet)
	if n := p.theSet().Resources; n != 2 {
		t.Errorf("%d resources are counted, want 2", n)
	}
}
