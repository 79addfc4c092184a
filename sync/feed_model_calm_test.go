package sync

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"resyncd/sync/keymap"
	"resyncd/sync/pull"
)

// calm lets the Source tell what is so, and then holds the mirror to it.
func (h *feedWorld) calm() {
	s := h.s
	s.mu.Lock()
	if !s.odd.Lost {
		clear(s.missing)
	}
	h.dice = make([]int, 1000)
	for _, id := range s.ids { // links that lead nowhere are mended
		if it := s.things[id].last(); slices.Contains(it.files, "/typo") {
			h.wait(2 * time.Second)
			at := h.now()
			if it.at.IsZero() {
				at = it.at
			}
			h.publishes(&feedItem{id: id, text: h.word(), at: at, files: []string{"/file0"}})
		}
	}
	h.say("calm")
	h.follows = h.odd.Follow
	h.wait(10 * time.Minute)
	s.write()
	s.mu.Unlock()
	h.shut()
	pulls := 1
	if len(s.missing) > 0 {
		pulls = pull.GoneReads
	}
	for range pulls {
		h.pull()
		s.mu.Lock()
		h.wait(2 * time.Minute)
		s.mu.Unlock()
	}
	res := h.pull()
	if res.InStep {
		h.holds("after two runs", false)
	}
	before := h.runs.found()
	h.opts.Full = true
	full := h.pull()
	h.opts.Full = false
	if full.InStep {
		h.holds("after a full run", true)
	}
	last := h.pull()
	if last.InStep {
		h.holds("after a run after a full one", full.InStep)
	}
	switch {
	case !res.InStep:
		h.tally.honest++
	case before > 0:
		h.tally.gaps++
	default:
		h.tally.equal++
	}
	h.live(last)
}

// live holds that a set is not out of step for ever where nothing is wrong with its feed, and that one that can prove what it
// has does: neither saying no nor finding gaps is a way out.
func (h *feedWorld) live(last Result) {
	flawed := false
	for it := range h.s.reach() {
		flawed = flawed || it.flawed
	}
	if !last.InStep && !flawed && len(h.s.missing) == 0 && last.Held == 0 {
		h.fail("nothing is wrong any more, and it is not in step")
	}
	o := *h.odd
	o.Pushed, o.Killed, o.Full, o.Faulty, o.Pages, o.OldVersions, o.Late2, o.NoTag = false, false, false, false, false, false, false, false
	o.Forgets, o.Follow, o.Guard = false, false, false
	if proves := o.Archives && !h.lone || o.Complete || !h.slid; proves {
		if o.Archives, o.Complete = false, false; o == (feedOddities{}) && h.runs.found() > 0 {
			h.fail("all of it can be proven, and there is a gap")
		}
	}
	if *h.odd == (feedOddities{}) && last.Requests > 3 {
		h.fail("nothing new cost %d requests", last.Requests)
	}
}

// holds compares the mirror of a set in step with what its Source says.
func (h *feedWorld) holds(when string, full bool) {
	s, reach := h.s, h.s.reach()
	if h.odd.Records {
		h.holdsRecords(when, full)
		return
	}
	got := h.held()
	var wrong []string
	for _, id := range s.ids {
		name := strings.TrimPrefix(id, "tag:test,2024:")
		e, text := s.things[id], got[name]
		delete(got, name)
		if why := h.judge(e, text, reach, full); why != "" {
			wrong = append(wrong, fmt.Sprintf("%s is %q (gone %t), its file is %q: %s", name, e.last().text, e.last().gone, text, why))
		}
	}
	for name, text := range got {
		wrong = append(wrong, fmt.Sprintf("%s, %q, was never an entry of this feed", name, text))
	}
	wrong = append(wrong, h.wrongFiles(reach, full)...)
	if len(wrong) > 0 {
		h.fail("%s, in step, but %s", when, strings.Join(wrong, "; "))
	}
}

// judge tells why the mirror may not hold this text of an entry, "" if it may.
func (h *feedWorld) judge(e *feedThing, text string, reach map[*feedItem]bool, full bool) string {
	it := e.last()
	always, shown := reach[it]
	old := false // a document shows what the entry said before
	for _, was := range e.items[:len(e.items)-1] {
		_, there := reach[was]
		old = old || there
	}
	switch {
	case text == it.text:
		return ""
	case it.gone && !it.tomb && !h.odd.Complete: // absence says nothing
		if !slices.ContainsFunc(e.items, func(i *feedItem) bool { return i.text == text }) && (!e.misled || old) {
			return "its Source never said so"
		}
		return ""
	case it.flawed && shown && (always || full):
		return "what cannot be read is no proof"
	case it.gone && h.odd.Complete:
		return "a complete feed does not show it"
	case shown && (always || full):
		return "a document shows it"
	case e.unread && len(h.s.missing) == 0, e.misled && !shown && !old, it.inPlace && !always, it.gone && e.dropped:
		return "" // no feed can prove that
	case h.runs.gapFor(it.tick):
		return ""
	}
	return "no gap was found"
}

// wrongFiles are what entries in the mirror link to and what is not in it as the Source has it.
func (h *feedWorld) wrongFiles(reach map[*feedItem]bool, full bool) (wrong []string) {
	if !h.odd.Follow {
		return nil
	}
	got := h.held()
	for path, f := range h.s.files {
		linked := false
		for _, id := range h.s.ids {
			it := h.s.things[id].last()
			if _, shown := reach[it]; shown && slices.Contains(it.files, path) && got[strings.TrimPrefix(id, "tag:test,2024:")] == it.text {
				linked = true
			}
		}
		key, err := keymap.NaturalKey(h.s.base + path)
		if err != nil {
			h.rt.Fatal(err)
		}
		b, _ := os.ReadFile(filepath.Join(h.root, filepath.FromSlash(key)))
		if linked && string(b) != f.text && (full || f.was == "") {
			wrong = append(wrong, fmt.Sprintf("%s says %q, its file %q", path, f.text, b))
		}
	}
	return wrong
}
