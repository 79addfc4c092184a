package sync

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"pgregory.net/rapid"
)

func (h *feedWorld) drawStep(rt *rapid.T) (st evStep) {
	o := h.odd
	does := []string{"pull", "pull", "publish", "publish", "many", "slide", "wait"}
	add := func(on bool, what ...string) {
		if on {
			does = append(does, what...)
		}
	}
	add(!o.Records, "edit", "delete")
	add(o.Missing && o.Archives, "missing", "missing", "found")
	add(o.InPage, "in page")
	add(o.Broken, "broken")
	add(o.Stale, "stale", "stale")
	add(o.Pinned, "pin", "unpin")
	add(o.Reborn, "delete", "reborn", "reborn")
	add(o.Restored, "edit", "edit")
	add(o.Forgets, "delete", "forget")
	add(o.Pushed, "push", "push", "push", "lost", "some", "hub down")
	add(o.Late2, "late")
	add(o.Forged, "forged", "forged")
	add(o.Killed, "killed", "killed")
	add(o.Faulty, "faulty")
	add(o.Full, "full")
	add(o.Flawed, "slide", "slide")
	add(o.Follow, "file", "file", "silent", "typo", "configure")
	st.what = rapid.SampledFrom(does).Draw(rt, "step")
	for i := range st.dice {
		st.dice[i] = rapid.IntRange(0, 59).Draw(rt, "die")
	}
	return st
}

// die is one of n; the first one where no die is left.
func (h *feedWorld) die(n int) int {
	if len(h.dice) == 0 {
		return 0
	}
	d := h.dice[0]
	h.dice = h.dice[1:]
	return d % n
}

func (h *feedWorld) step(st evStep) {
	s := h.s
	h.dice = st.dice[:]
	s.mu.Lock()
	defer s.mu.Unlock()
	unlocked := func(do func()) {
		s.mu.Unlock()
		defer s.mu.Lock()
		do()
	}
	pull := func() { unlocked(func() { h.pull() }) }
	switch st.what {
	case "pull":
		pull()
	case "publish":
		for range 1 + h.die(3) {
			h.publish()
		}
	case "many":
		h.many()
	case "slide": // so that each run meets the one before
		for range s.window {
			h.publish()
			if h.die(3) == 0 {
				pull()
			}
		}
		pull()
	case "hub down": // for longer than a window, and then it is back
		h.many()
		h.notifications("lost")
		h.many()
		if bodies := h.notifications("push"); len(bodies) > 0 {
			unlocked(func() { h.push(bodies, false) })
		}
	case "configure":
		h.say("what entries link to is followed")
		h.follows = true
		unlocked(h.shut)
	case "edit", "delete", "reborn":
		h.change(st.what)
	case "wait":
		h.wait([]time.Duration{time.Second, 30 * time.Second, 2 * time.Minute, time.Hour, 25 * time.Hour}[h.die(5)])
	case "missing", "found":
		if n := len(s.archives); n > 0 {
			path := archivePath(h.die(n))
			if s.missing[path] = st.what == "missing"; s.odd.Lost {
				s.missing[path] = true
			}
			h.say("%s missing: %t", path, s.missing[path])
		}
	case "in page":
		h.say("a page stands in the feed's place:")
		s.inPage = true
		pull()
		s.inPage = false
	case "broken":
		s.broken = 1 + h.die(4)
		h.say("the feed is broken (%d):", s.broken)
		pull()
		s.broken = 0
	case "stale":
		n := h.die(len(s.copies))
		h.say("a cache has copy %d of %d:", n, len(s.copies))
		s.stale = s.copies[n]
		pull()
		s.stale = nil
	case "pin", "unpin":
		if len(s.current) > 0 {
			e := s.current[len(s.current)-1-h.die(len(s.current))]
			if st.what == "unpin" {
				for _, it := range s.current {
					if s.things[it.id].pinned {
						e = it
					}
				}
			}
			if s.things[e.id].pinned = st.what == "pin" && !e.gone; s.things[e.id].pinned || st.what == "unpin" {
				h.say("%s is pinned: %t", e.id, s.things[e.id].pinned)
			}
			s.slide()
		}
	case "forget":
		h.say("the tombstones are dropped")
		s.forget()
	case "push", "lost", "some", "late", "forged":
		if bodies := h.notifications(st.what); len(bodies) > 0 {
			full := h.die(6) == 0
			unlocked(func() { h.push(bodies, full) })
		}
	case "killed":
		n := h.die(12)
		h.say("killed after %d steps:", n)
		h.fate.strikes(killed, n, 0)
		pull()
		unlocked(h.shut)
		h.fate.relents()
	case "faulty":
		rnd := rand.New(rand.NewPCG(uint64(h.die(60)), 0))
		s.over = func(w http.ResponseWriter, req *http.Request) bool {
			if rnd.IntN(3) > 0 {
				return false
			}
			h.say("%s fails", req.URL.Path)
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		pull()
		s.over = nil
	case "full":
		h.opts.Full = true
		pull()
		h.opts.Full = false
	case "file", "silent", "typo":
		h.changeFile(st.what)
	}
}

// many publishes more than the window shows.
func (h *feedWorld) many() {
	dice := slices.Clone(h.dice)
	for range h.s.window + h.die(h.s.window+2) {
		h.dice = append(slices.Clone(dice), h.dice...)
		h.publish()
	}
}

func (h *feedWorld) wait(d time.Duration) { h.s.clock = h.s.clock.Add(d) }

// now is an instant as a feed writes it.
func (h *feedWorld) now() time.Time { return h.s.clock.Truncate(time.Second) }

// word is a text that never was.
func (h *feedWorld) word() string {
	h.s.serial++
	return fmt.Sprintf("text %03d", h.s.serial)
}

func (h *feedWorld) publishes(it *feedItem) {
	s := h.s
	if s.odd.Flawed && !it.gone && h.die(4) == 3 {
		it.flawed = true
	}
	s.publish(it)
	h.say("%s: %q, gone %t, tomb %t, at %s, in place %t, flawed %t, files %v", it.id, it.text, it.gone, it.tomb, h.at(it.at), it.inPlace, it.flawed, it.files)
}

func (h *feedWorld) at(t time.Time) string {
	if t.IsZero() {
		return "no date"
	}
	return t.Sub(evBegin).String()
}

// publish adds an entry.
func (h *feedWorld) publish() {
	s, o := h.s, h.odd
	if dt := []time.Duration{time.Second, time.Millisecond, 40 * time.Second}[h.die(3)]; o.Burst {
		h.wait(dt)
	} else {
		h.wait(max(dt, time.Second))
	}
	it := &feedItem{id: fmt.Sprintf("tag:test,2024:e%02d", len(s.ids)), text: h.word(), at: h.now()}
	switch {
	case o.Records:
		it.edit = h.edit()
		it.text = fmt.Sprint(it.edit.subject, " of day ", it.edit.day, " ", it.edit.fields)
	case o.Undated && (s.serial%3 > 0 || s.odd.NoTag):
		it.at = time.Time{}
	case o.Future && s.serial%3 == 0:
		it.at = it.at.Add(400 * time.Hour)
	case o.Late && s.serial/8%2 > 0:
		it.at = it.at.Add(-30 * time.Hour)
	}
	if o.Follow && s.serial%2 == 0 {
		it.files = []string{fmt.Sprintf("/file%d", s.serial%3)}
	}
	if h.publishes(it); o.Pinned && s.serial%7 == 0 {
		s.things[it.id].pinned = true
		h.say("%s is pinned", it.id)
	}
}

// change edits, deletes or publishes again an entry that the feed shows, or one of all.
func (h *feedWorld) change(what string) {
	s, o := h.s, h.odd
	h.wait([]time.Duration{2 * time.Second, 40 * time.Second}[h.die(2)])
	var of []string
	for _, id := range s.ids {
		if e := s.things[id]; e.last().gone == (what == "reborn") {
			of = append(of, id)
		}
	}
	if o.InPlace {
		of = slices.DeleteFunc(of, func(id string) bool {
			return !slices.ContainsFunc(s.current, func(it *feedItem) bool { return it.id == id })
		})
	}
	if len(of) == 0 {
		return
	}
	e := s.things[of[len(of)-1-h.die(len(of))]]
	was := e.last()
	it := &feedItem{id: was.id, text: h.word(), at: h.now(), files: was.files, inPlace: o.InPlace && what == "edit"}
	odd := h.die(3) > 0
	switch {
	case what == "delete":
		it.gone, it.text, it.files = true, "", nil
		it.tomb = !o.Complete && !(o.Untombed && odd)
	case what == "reborn" && o.Reborn && odd:
		if h.die(2) == 0 && was.tomb {
			it.at = was.at
		} else {
			old := e.items[max(0, len(e.items)-2)]
			it.at, it.text = old.at, old.text
		}
	case o.Undated && was.at.IsZero():
		it.at = time.Time{}
	case o.SameDate && odd:
		it.at = was.at
	case o.Restored && odd:
		old := e.items[0]
		it.at, it.text = old.at, old.text
		if !it.at.IsZero() && !it.at.Before(was.at) {
			it.at = was.at.Add(-time.Hour)
		}
	}
	if it.text == was.text && it.gone == was.gone {
		it.text = h.word()
	}
	h.publishes(it)
}

// changeFile changes what entries link to: with an edit of one of them, or in silence, or a link that leads nowhere.
func (h *feedWorld) changeFile(what string) {
	s := h.s
	var linking []*feedThing
	path := fmt.Sprintf("/file%d", h.die(3))
	for _, id := range s.ids {
		if e := s.things[id]; slices.Contains(e.last().files, path) {
			linking = append(linking, e)
		}
	}
	if len(linking) == 0 {
		return
	}
	h.wait(2 * time.Second)
	e := linking[h.die(len(linking))]
	it := &feedItem{id: e.last().id, text: h.word(), at: h.now(), files: e.last().files}
	if e.last().at.IsZero() || h.odd.SameDate {
		it.at = e.last().at
	}
	if what == "typo" {
		it.files = []string{"/typo"}
	} else {
		f := s.files[path]
		f.was = f.text
		f.text = h.word()
		h.say("%s says %q: %s", path, f.text, what)
	}
	if what != "silent" {
		s.files[path].was = ""
		h.publishes(it)
	}
}
