package sync

import (
	"context"
	"slices"
	"strings"
	"time"

	"resyncd/destination/rsdoc"
	"resyncd/store"
)

// notifications are what the hub says next.
func (h *feedWorld) notifications(how string) (bodies []string) {
	s := h.s
	if len(s.ids) == 0 {
		return nil
	}
	say := func(items ...*feedItem) { bodies = append(bodies, feedText("", items)) }
	switch how {
	case "late":
		if len(s.events) == 0 {
			return nil
		}
		it := s.events[h.die(len(s.events))]
		if e := s.things[it.id]; e.wild && it != e.last() {
			e.misled = true
		}
		h.say("the hub tells late, or once more, of %s %q", it.id, it.text)
		say(it)
		return bodies
	case "forged":
		e := s.things[s.ids[len(s.ids)-1-h.die(len(s.ids))]]
		n := 1 + h.die(3)*2
		for i := range n { // and of some beside it
			e := s.things[s.ids[(slices.Index(s.ids, e.last().id)+i)%len(s.ids)]]
			e.misled = true
			it := &feedItem{id: e.last().id, text: "forged", at: h.now().Add([]time.Duration{0, 4 * time.Minute, time.Hour}[h.dice[1]%3])}
			if it.gone = h.dice[0]%2 == 0; it.gone {
				it.text = ""
			} else if h.dice[1]%5 == 0 {
				it.at = e.last().at
			}
			h.say("the hub forges %s: gone %t, at %s", it.id, it.gone, h.at(it.at))
			say(it)
		}
		return bodies
	}
	rest := s.events[h.told:]
	h.told = len(s.events)
	var items []*feedItem
	for _, it := range rest {
		if how == "lost" || how == "some" && (it.tick+h.dice[0])%3 == 0 {
			h.say("a push of %s %q is lost", it.id, it.text)
			continue
		}
		if it.flawed {
			continue
		}
		if e := s.things[it.id]; e.wild && it != e.last() {
			e.misled = true
		}
		items = append(items, it)
	}
	if together := h.die(2) == 0; together && len(items) > 0 {
		slices.Reverse(items)
		say(items...)
	} else {
		for _, it := range items {
			say(it)
		}
	}
	h.say("the hub tells of %d entries in %d pushes", len(items), len(bodies))
	return bodies
}

// push hands notifications to a Follower and lets it do what it does.
func (h *feedWorld) push(bodies []string, full bool) {
	h.shut()
	p := &pusher{rig: h.rig, jobs: map[Work]time.Time{}, wake: make(chan struct{}, 1), failed: func(Work, error) {}, sub: h.sub,
		kind: store.ChannelFeed}
	p.follow()
	defer p.stop()
	for _, b := range bodies {
		p.deliver(rsdoc.Interval{From: rsdoc.NoTime, Until: rsdoc.NoTime}, []byte(b), true)
	}
	h.sub = p.sub
	p.later(WorkNotify, p.eng.Now())
	calm := 0
	for end := time.Now().Add(time.Second); time.Now().Before(end) && calm < 3; <-time.After(2 * time.Millisecond) {
		size, err := waiting(p.store)
		due := false
		p.locked(func() {
			for _, at := range p.jobs {
				due = due || !at.After(p.eng.Now())
			}
		})
		if calm++; err != nil || size.Deliveries > 0 || due || !p.f.Idle() {
			calm = 0
		}
	}
	if full {
		res := p.pull(false)
		h.say("the daemon pulls: %s, %d gaps; %s", res.Kind, res.GapsFound, res.Problem)
	}
	gaps, err := p.store.Gaps(context.Background(), p.theSet().ID)
	if err != nil {
		h.rt.Fatal(err)
	}
	h.ran(false, gaps)
	h.say("after the push: %s", strings.Join(h.state(), " "))
}
