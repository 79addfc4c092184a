package inspect

import (
	"slices"
	"strings"

	"resyncd/store"
)

// said is one statement of the Source's documents about a resource.
type said struct {
	URI    string
	Set    int
	What   statement
	Absent bool
	Left   bool   // absent because it left the selection
	Digest string // "alg:hex" of the strongest, "" without
	Length int64  // -1 without
	// At is when the document says so: of a list its snapshot, of a change or an entry its own instant. LastMod is the
	// resource's own time where a list gives one.
	At, LastMod store.Micros
	Page        int    // of a feed: its place in the order of reading, newest document first
	Rel         string // of a link
	Edit        []byte
}

// statement is what kind of thing a document says.
type statement uint8

const (
	listed statement = iota
	changed
	entry
	edit
	link
)

// says tells whether two statements are about the same content.
func (s *said) says(o *said) bool {
	return s.Absent == o.Absent && (s.Absent || s.Digest == o.Digest && s.Length == o.Length)
}

// expected is what the mirror should have of a resource.
type expected struct {
	words []*said
	// unsure: the words contradict each other without an order. hidden: later changes may be unseen, so a file that
	// fits proves nothing. The Source is asked.
	unsure, hidden bool
	// any: a file that is what one of the words says is right.
	any bool
	// inline: the bytes came with the document; there is nothing to ask for.
	inline bool
	scope  func(uri string) bool
}

// expect makes up what the sets say of a resource, without words where all leave it out.
func (p *pass) expect(uri string, all []*said) expected {
	var e expected
	for n := range p.sets {
		s := &p.sets[n]
		var own []*said
		for _, d := range all {
			// What comes with its document lies within the scope by itself.
			if d.Set == n && (d.What == entry || d.What == edit || s.scope.Contains(uri)) && p.filter.Passes(uri) {
				own = append(own, d)
			}
		}
		if len(own) > 0 {
			e.join(s.decide(own))
		}
	}
	return e
}

// join adds what another set says: one that has the resource is enough.
func (e *expected) join(o expected) {
	switch {
	case len(e.words) == 0:
		*e = o
	case !o.unsure && len(o.words) == 1 && o.words[0].Absent:
	case !e.unsure && len(e.words) == 1 && e.words[0].Absent:
		*e = o
	default:
		e.hidden = e.hidden || o.hidden
		e.unsure = e.unsure || o.unsure || !e.words[0].says(o.words[0])
		e.words = append(e.words, o.words...)
	}
}

// decide makes one expectation of what a set's documents say of a resource.
func (s *set) decide(all []*said) expected {
	if s.offer.Topic != nil {
		return s.decideTopic(all)
	}
	e := expected{scope: s.scope.Contains, unsure: s.unread}
	var list, change *said
	for _, d := range all {
		switch {
		case d.What == changed:
			if change == nil || !d.At.Known() || !change.At.Known() || d.At >= change.At {
				change = d
			}
		case list != nil && !list.says(d):
			e.unsure = true
			e.words = append(e.words, d)
		default:
			list = d
		}
	}
	if list == nil && s.complete {
		list = &said{Absent: true, Length: -1, At: s.from, LastMod: store.NoTime}
	}
	switch {
	case change == nil:
		e.words = append(e.words, list)
		e.hidden = s.hides(list)
	case list == nil, list.says(change), change.after(list):
		e.words = append(e.words, change)
	case change.before(list):
		e.words = append(e.words, list)
		e.hidden = s.hides(list)
	default:
		e.words, e.unsure = append(e.words, list, change), true
	}
	return e
}

// hides tells whether changes since a list was made may have left the Change Lists unseen.
func (s *set) hides(list *said) bool {
	at := list.At
	if !at.Known() {
		at = s.made
	}
	return s.reach.Known() && !list.Absent && at < s.reach
}

// second is how much a time may stand for that was cut to seconds.
const second = 1e6

func (s *said) before(list *said) bool {
	last := s.At // the latest instant that the time of a change can mean
	if s.At%second == 0 {
		last += second - 1
	}
	return s.At.Known() && list.At.Known() && last < list.At
}

func (s *said) after(list *said) bool {
	return s.At.Known() && list.At.Known() && s.At > list.At && (!list.LastMod.Known() || list.LastMod <= s.At)
}

// decideTopic takes the newest words of a feed, by date and by place: both count, for nothing orders them.
func (s *set) decideTopic(all []*said) expected {
	e := expected{any: true, scope: s.scope.Contains}
	newest, page := store.NoTime, all[0].Page
	for _, d := range all {
		newest, page = max(newest, d.At), min(page, d.Page)
	}
	for _, d := range all {
		if d.What == edit || d.At == newest || d.Page == page {
			e.words = append(e.words, d)
		}
		e.inline = e.inline || d.What != link
	}
	return e
}

// absent tells that the resource should not be there, beyond doubt.
func (e *expected) absent() bool {
	there := func(w *said) bool { return !w.Absent }
	return !e.unsure && len(e.words) > 0 && !slices.ContainsFunc(e.words, there)
}

// answer is how a file compares with words.
type answer uint8

const (
	no answer = iota
	yes
	unknown // the words tell nothing that could be compared
)

// fits compares a file with an expectation.
func (e *expected) fits(f *file) answer {
	fits := yes
	for _, w := range e.words {
		switch a := w.fits(f); {
		case e.any && a == yes && w.What != edit:
			return yes
		case a == no, a == unknown && fits == yes:
			fits = a
		}
	}
	return fits
}

func (s *said) fits(f *file) answer {
	switch {
	case s.Absent || !f.there:
		return truth(s.Absent != f.there)
	case s.What == edit:
		return truth(f.tells(s.Edit))
	case s.Digest != "":
		alg, _, _ := strings.Cut(s.Digest, ":")
		return truth(f.sums[alg] == s.Digest && (s.Length < 0 || s.Length == f.length))
	case s.Length >= 0:
		return truth(s.Length == f.length)
	}
	return unknown
}

func truth(b bool) answer {
	if b {
		return yes
	}
	return no
}

// expects is what a finding says was expected.
func (e *expected) expects() *string {
	for _, w := range e.words {
		if w.Digest != "" && !w.Absent {
			return &w.Digest
		}
	}
	return nil
}
