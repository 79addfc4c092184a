package sync

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"pgregory.net/rapid"

	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/keymap"
)

// evStep is what happens next, and the numbers that decide how. They are drawn all at once, so that a step can be left out
// when a failure is shrunk.
type evStep struct {
	what string
	dice [6]int
}

func (h *evWorld) drawStep(rt *rapid.T) (st evStep) {
	o, s := h.odd, h.s
	does := []string{"pull", "change", "change", "wait", "list"}
	add := func(on bool, what ...string) {
		if on {
			does = append(does, what...)
		}
	}
	add(s.hasCL, "rotate")
	add(o.Pruned, "change", "change", "change", "pull")
	add(o.Forgetful && s.hasCL, "forget")
	add(o.Restored, "restore")
	add(o.StaleParts, "stale")
	add(o.Batched, "changes")
	add(o.DateAhead, "server clock")
	add(o.LocalSkew, "local clock")
	add(o.Pushed, "push", "push", "lost", "forged", "ahead", "again")
	add(o.Midway, "midway", "midway")
	add(o.Killed, "killed", "killed")
	add(o.Faulty, "faulty")
	add(o.Lost, "lose")
	add(o.Older, "older")
	add(o.Full, "full")
	st.what = rapid.SampledFrom(does).Draw(rt, "step")
	for i := range st.dice {
		st.dice[i] = rapid.IntRange(0, 59).Draw(rt, "die")
	}
	return st
}

// die is one of n.
func (h *evWorld) die(n int) int {
	d := h.dice[0]
	h.dice = h.dice[1:]
	return d % n
}

func evOne[T any](h *evWorld, of ...T) T { return of[h.die(len(of))] }

func (h *evWorld) step(st evStep) {
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
	switch what := st.what; what {
	case "pull":
		pull()
	case "change":
		h.apply(h.drawChange())
	case "wait":
		h.wait(evOne(h, time.Second, time.Minute, 3*time.Minute, 10*time.Minute, time.Hour, 25*time.Hour))
	case "list":
		h.writeList()
	case "rotate", "forget":
		h.say("%s", what)
		s.rotate(what == "forget")
	case "restore":
		s.serving = h.die(len(s.lists))
		h.say("list %d of %d is served", s.serving, len(s.lists))
	case "stale":
		which := s.lists[h.die(len(s.lists))]
		path := fmt.Sprintf("/p%d.xml", h.die(s.parts))
		s.stale = map[string]*evPage{path: which[path]}
		h.say("a cache has an older %s", path)
	case "changes":
		h.say("the Change List is written")
		s.writeChanges()
	case "server clock":
		s.server = 0
		h.say("the server's clock is put right")
	case "local clock":
		h.local = evOne(h, 0*time.Second, time.Hour, -time.Hour)
		h.say("our clock is %s ahead", h.local)
	case "push", "lost", "forged", "ahead", "again":
		if text, iv := h.notification(what); text != "" {
			unlocked(func() { h.push(text, iv) })
		}
	case "midway":
		at := 2 + h.die(7)
		n := s.requests
		written := h.die(2) == 1
		name, body, bad, dt := h.drawChange()
		s.midway = func(now int) {
			if now == n+at {
				h.say("midway, at request %d:", at)
				h.apply(name, body, bad, dt)
				if written {
					s.writeList(false, 0)
					h.say("the Resource List is written")
				}
			}
		}
		pull()
		s.midway = nil
	case "killed":
		n := h.die(16)
		h.say("killed after %d steps:", n)
		h.fate.strikes(killed, n, 0)
		pull()
		unlocked(h.shut)
		h.fate.relents()
	case "faulty":
		rnd := rand.New(rand.NewPCG(uint64(h.die(60)), 0))
		s.over = func(w http.ResponseWriter, req *http.Request) bool {
			if rnd.IntN(4) > 0 {
				return false
			}
			h.say("%s fails", req.URL.Path)
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		pull()
		s.over = nil
	case "lose":
		h.lose(h.die(2) == 1)
	case "older":
		h.older(h.kept[h.die(len(h.kept))])
	case "full":
		h.opts.Full = true
		pull()
		h.opts.Full = false
	}
}

func (h *evWorld) wait(d time.Duration) {
	if h.odd.UntilAhead {
		d = min(d, 10*time.Minute)
	}
	h.s.clock = h.s.clock.Add(d)
	h.s.roll()
}

func (h *evWorld) writeList() {
	s := h.s
	repeat, back := false, time.Duration(0)
	if h.odd.RepeatAt {
		repeat = h.die(2) == 1
	}
	if h.odd.BackAt || h.odd.OldModified {
		back = evOne(h, 0*time.Second, time.Minute, time.Hour, 24*time.Hour)
	}
	s.writeList(repeat, back)
	h.say("the Resource List is written (%d); at repeats %t, back %s", s.serving, repeat, back)
}

func (h *evWorld) drawChange() (name, body, bad string, dt time.Duration) {
	dt = evOne(h, time.Second, 100*time.Millisecond, time.Microsecond, 40*time.Second)
	if (h.odd.Bare || h.odd.LengthOnly) && (h.odd.Pruned || h.odd.NoFrom || !h.s.hasCL) {
		dt = max(dt, time.Second) // nothing could tell two changes of one second
	}
	if *h.odd == (oddities{}) && !h.s.fraction {
		dt = max(dt, time.Second) // a change within the second of the list's at is asked about, and that is as it should be
	}
	var free []string
	for _, n := range h.names {
		if n != "keep" && !static(n) {
			free = append(free, n)
		}
	}
	name = evOne(h, free...)
	switch evOne(h, "put", "put", "new", "delete", "before") {
	case "put":
		body = h.body()
	case "new":
		name, body = fmt.Sprintf("n%d", h.s.serial), h.body()
	case "before":
		for _, e := range h.s.events { // what it was at first
			if e.name == name && e.body != "" {
				body = e.body
				break
			}
		}
	}
	if h.odd.Unreadable {
		bad = evOne(h, "", "change", "datetime", "loc")
	}
	return name, body, bad, dt
}

func (h *evWorld) apply(name, body, bad string, dt time.Duration) {
	h.wait(dt)
	if h.s.files[name] != nil && h.s.files[name].body == body {
		return
	}
	h.put(name, body, bad)
	if r := h.s.files[name]; r != nil && h.odd.BadListed && evHash(name)%3 == 0 {
		r.badList = true
	}
}

func (h *evWorld) mirrorPath(name string) string {
	key, err := keymap.NaturalKey(h.s.base + "/" + name)
	if err != nil {
		h.rt.Fatal(err)
	}
	return filepath.Join(h.root, filepath.FromSlash(key))
}

// held is what the mirror holds by name, without what is no resource of the Source's.
func (h *evWorld) held() map[string]string {
	out := map[string]string{}
	for _, n := range h.names {
		b, err := os.ReadFile(h.mirrorPath(n))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			h.rt.Fatal(err)
		}
		out[n] = string(b)
	}
	return out
}

func (h *evWorld) lose(all bool) {
	for _, n := range slices.Sorted(maps.Keys(h.held())) {
		if !all && evHash(n)%2 == 0 {
			continue
		}
		h.say("the file of %s is lost", n)
		if err := os.Remove(h.mirrorPath(n)); err != nil {
			h.rt.Fatal(err)
		}
	}
}

// older puts a copy of the mirror back, as one restores a backup of it.
func (h *evWorld) older(copied map[string]string) {
	now := h.held()
	for _, n := range slices.Sorted(maps.Keys(copied)) {
		path := h.mirrorPath(n)
		if now[n] == "" || now[n] == copied[n] {
			continue
		}
		h.say("the file of %s is an older copy, %q", n, copied[n])
		at := time.Now().Add(-time.Hour)
		if err := errors.Join(os.WriteFile(path, []byte(copied[n]), 0o644), os.Chtimes(path, at, at)); err != nil {
			h.rt.Fatal(err)
		}
	}
}

// evNotice is a notification.
type evNotice struct {
	text string
	iv   store.Interval
}

// notification is what the hub says next, "" for nothing.
func (h *evWorld) notification(how string) (string, store.Interval) {
	s := h.s
	if how == "again" {
		if len(h.said) == 0 {
			return "", store.Interval{}
		}
		n := evOne(h, h.said...)
		h.say("the hub repeats what it said up to %s", n.iv.Until.Time().Sub(evBegin))
		return n.text + "\n", n.iv
	}
	from := h.until
	if from.IsZero() {
		from = s.windows[0]
	}
	until := s.appNow()
	var entries []string
	for _, e := range s.events[h.told:] {
		entries = append(entries, s.told(e))
	}
	h.told, h.until = len(s.events), until
	switch how {
	case "lost":
		h.say("a notification of %d changes is lost", len(entries))
		return "", store.Interval{}
	case "forged":
		e := evEvent{at: until, name: h.names[h.die(len(h.names))], change: evOne(h, "updated", "deleted"), body: "forged!"}
		entries = []string{s.told(e)}
		h.say("the hub forges: %s %s", e.name, e.change)
	case "ahead":
		until = until.Add(evOne(h, time.Minute, 4*time.Minute, time.Hour))
		h.say("the hub tells of %d changes, until %s", len(entries), until.Sub(evBegin))
	default:
		h.say("the hub tells of %d changes", len(entries))
	}
	text := list(string(rsdoc.KindChangeNotification), attr("from", s.stamp(from))+attr("until", s.stamp(until)), entries...)
	if !s.fraction {
		from, until = from.Truncate(time.Second), until.Truncate(time.Second)
	}
	iv := store.Interval{From: store.MicrosOf(from), Until: store.MicrosOf(until)}
	h.said = append(h.said, evNotice{text, iv})
	return text, iv
}

// push hands a notification to a Follower and lets it do what it does.
func (h *evWorld) push(text string, iv store.Interval) {
	h.shut()
	p := &pusher{rig: h.rig, jobs: map[Work]time.Time{}, wake: make(chan struct{}, 1), failed: func(Work, error) {}, sub: h.sub}
	p.follow()
	defer p.stop()
	p.deliver(rsdoc.Interval{From: rsdoc.Micros(iv.From), Until: rsdoc.Micros(iv.Until)}, []byte(text), true)
	h.sub = p.sub
	p.later(WorkNotify, p.eng.Now())
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		if size, err := waiting(p.store); err == nil && size.Deliveries == 0 && p.f.Idle() {
			break
		}
	}
}
