package e2e_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// ailment is one misdeed, and which answers it spoils.
type ailment struct {
	misdeed
	of    string // for people
	holds func(path string) bool
	// full: the daemon is made to read the whole Resource List meanwhile.
	full bool
}

// ailments are every misdeed of every answer, or of every document or list where it is about those, and what may happen to
// the Capability List, or to the parts of an index alone.
func ailments() (all []ailment) {
	everything := func(string) bool { return true }
	lists := func(path string) bool {
		return strings.HasPrefix(path, resourceLists) || strings.HasPrefix(path, changeLists)
	}
	parts := func(path string) bool {
		return strings.HasPrefix(path, resourceLists+"/") || strings.HasPrefix(path, changeLists+"/")
	}
	capabilities := func(path string) bool { return path == capabilityList }
	for _, d := range misdeeds() {
		switch {
		case d.sort == document:
			all = append(all, ailment{d, "documents", isDocument, true})
		case d.sort == steady:
			all = append(all, ailment{d, "lists", lists, true})
		default:
			all = append(all, ailment{d, "everything", everything, false})
		}
		switch d.name {
		case "404", "410", "500", "cut, chunked", "page", "garbled", "of another kind", "led to another host":
			all = append(all, ailment{d, "parts", parts, true})
		}
		switch d.name {
		case "404", "page", "garbled", "without its entries":
			all = append(all, ailment{d, "the Capability List", capabilities, false})
		}
	}
	return all
}

// oneThingAtATime has a Source that only its documents tell of be ill in one way after another. After each the mirror comes
// into step again: by itself where asking again soon is what helps, else after one pull that an operator asks for.
func oneThingAtATime(t *testing.T) {
	t.Parallel()
	o, m := newMisbehaving(t, 120)
	saw := o.annals.watchOver(o.mirror, 2*time.Millisecond)
	o.serveDaemon()
	o.converged(30 * time.Second)
	o.gate.open("") // a push would tell what documents do not
	all := ailments()
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if !soak { // those that only a whole Resource List shows, and a few of the others
		others := 0
		all = slices.DeleteFunc(all, func(a ailment) bool {
			if a.sort != steady {
				others++
			}
			return a.sort != steady && others > 8
		})
	}
	slowest, slow := time.Duration(0), ""
	for _, a := range all {
		took := o.suffer(m, a)
		if t.Failed() {
			t.Fatalf("of %s: %s", a.of, a.name)
		}
		if took > slowest {
			slowest, slow = took, a.of+" "+a.name
		}
	}
	o.settled(30 * time.Second)
	reads := saw.quit(t)
	m.noStrays(t)
	t.Logf("%d ailments, one after another: %s", len(all), m.told())
	t.Logf("%d reads by the witness: %d of what was never published, older than before, or deleted unasked; in step %s after calm at the latest (%s)",
		reads, len(saw.wrong), slowest.Round(time.Millisecond), slow)
}

// suffer has the Source be ill while a few resources change, and returns how long the mirror takes from calm on.
func (o *ordeal) suffer(m *mischief, a ailment) time.Duration {
	o.t.Helper()
	m.keep()
	before, had, began := o.annals.living(), m.count(m.did, a.name), time.Now()
	m.begin(func(path string, _ int) string {
		if a.holds(path) {
			return a.name
		}
		return ""
	})
	for range 4 {
		o.change()
	}
	if a.full {
		o.command("sync", "--quiet", "--full", "lib")
	}
	o.until("the Source has misbehaved: "+a.of+" "+a.name, 30*time.Second, func() bool {
		return m.count(m.did, a.name) > had && time.Since(began) > 500*time.Millisecond
	})
	o.unharmed(before)
	m.calm()
	began = time.Now()
	switch {
	case a.sort == steady:
		o.command("sync", "--quiet", "--full", "lib")
	case a.sort == lasting:
		o.command("sync", "--quiet", "lib")
	}
	o.converged(time.Minute)
	return time.Since(began)
}
