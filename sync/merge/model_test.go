package merge

import (
	"encoding/hex"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"resyncd/store"
)

// The model of coverage.md 6: a Source with a random history that publishes overlapping documents, and a Destination that
// reads them in any order, repeatedly, in part late or never (notifications), while the Source lives on.

// happened is one change at the Source. Content is 0 for deleted.
type happened struct {
	at      store.Micros
	uri     int
	content byte
}

// modelDoc is a change document: part of the history, with what it chooses to tell of it.
type modelDoc struct {
	id       int64
	from     store.Micros
	until    store.Micros // NoTime: open
	begin    int          // first event
	end      int          // one past the last event; an open list grows
	dated    []bool       // by event
	digests  bool
	lastmods bool
}

type model struct {
	t       *rapid.T
	events  []happened
	now     int // events that happened
	clock   store.Micros
	floor   store.Micros
	rows    map[int]*store.Want
	haves   map[int]*store.Have
	gen     int64
	asked   int
	history string
}

const modelURIs = 3

// truth is the content of a resource after n events.
func (m *model) truth(uri, n int) byte {
	for i := n - 1; i >= 0; i-- {
		if m.events[i].uri == uri {
			return m.events[i].content
		}
	}
	return 0
}

func modelSum(content byte) (sum [32]byte) {
	sum[0] = content
	return sum
}

func (m *model) candidate(content byte, modified store.Micros, digests, lastmods bool, v store.Version) Candidate {
	c := Candidate{State: store.WantAbsent, Version: v, Length: -1, LastMod: store.NoTime}
	if content == 0 {
		return c
	}
	c.State = store.WantPresent
	if digests {
		sum := modelSum(content)
		c.Digests = "sha-256:" + hex.EncodeToString(sum[:])
	}
	if lastmods {
		c.LastMod = modified
	}
	return c
}

func (m *model) log(format string, args ...any) { m.history += fmt.Sprintf(format+"\n", args...) }

// read takes in a document as it stands.
func (m *model) read(d *modelDoc, lag int) {
	end := min(d.end, m.now)
	if !d.until.Known() {
		end = max(d.begin, end-lag)
	}
	p := NewPlacer(PlacerHead{From: d.from, Until: d.until, Read: m.clock, Document: d.id, Reading: NewReading()})
	var stamps []Stamp
	for i := d.begin; i < end; i++ {
		s := Stamp{Datetime: store.NoTime, LastMod: store.NoTime, Ordinal: int64(i - d.begin), Deleted: m.events[i].content == 0}
		if d.dated[i] {
			s.Datetime = m.events[i].at
		}
		if d.lastmods && !s.Deleted {
			s.LastMod = m.events[i].at
		}
		stamps = append(stamps, s)
	}
	for i, v := range p.Place(stamps) {
		e := m.events[d.begin+i]
		c := m.candidate(e.content, e.at, d.digests, d.lastmods, v)
		row := m.rows[e.uri]
		decision := Merge(row, m.haves[e.uri], Floor{At: m.floor}, c)
		m.log("  doc %d: uri %d content %d [%d %d] #%d: %d", d.id, e.uri, e.content, v.From/Second, v.Until/Second, v.Ordinal, decision)
		m.apply(e.uri, decision, c, 0)
	}
}

func (m *model) apply(uri int, d Decision, c Candidate, generation int64) {
	switch d {
	case Replace:
		w := c.Want(1)
		if w.Generation = generation; generation > 0 {
			w = Raised(w, m.rows[uri], m.floor)
		}
		if old := m.rows[uri]; CarryOver(old, &w, m.haves[uri]) {
			m.haves[uri].Version = w.Version
		}
		m.rows[uri] = &w
	case Ask:
		w := c.Contest(m.rows[uri], m.floor, 1)
		m.rows[uri] = &w
	}
}

// baseline takes a snapshot that began after n events and was written while the Source went on.
func (m *model) baseline(n int, a store.Micros, id int64, digests, lastmods bool) {
	if m.floor.Known() && a < m.floor {
		return
	}
	m.gen++
	m.log("baseline at %d after %d events", a/Second, n)
	for uri := range modelURIs {
		content, modified := byte(0), store.NoTime
		for i := range n {
			if m.events[i].uri == uri {
				content, modified = m.events[i].content, m.events[i].at
			}
		}
		c := m.candidate(content, modified, digests, lastmods, store.Version{From: a, Until: a, Ordinal: int64(uri), Document: id})
		var d Decision
		switch {
		case content != 0:
			d = MergeBaseline(m.rows[uri], m.haves[uri], Floor{At: m.floor}, c, Reading{At: a, Trusted: true})
		case m.rows[uri] == nil:
			continue
		default:
			d = MergeUnlisted(m.rows[uri], Floor{At: m.floor}, Reading{At: a, Trusted: true})
			c.Version.Ordinal, c.Version.Document = 0, 0
		}
		m.log("  uri %d content %d: %d", uri, content, d)
		m.apply(uri, d, c, m.gen)
	}
	m.floor = a
	for uri, w := range m.rows { // tombstones below the floor may be dropped
		if w.State == store.WantAbsent && w.Version.Until < a && m.haves[uri].State == store.HaveNone {
			delete(m.rows, uri)
		}
	}
}

// reconcile does the work that is owed, as the Source answers now, and reports what stays owed.
func (m *model) reconcile() (owed int) {
	for uri := range modelURIs {
		w, h := m.rows[uri], m.haves[uri]
		if w == nil || Satisfied(w, h) == Yes {
			continue
		}
		content := m.truth(uri, m.now)
		switch {
		case w.State == store.WantAbsent:
			*h = store.Have{}
		case content == 0 && w.State == store.WantAsk:
			*w = Settle(*w, false, m.clock)
			*h = store.Have{}
			m.asked++
		case content == 0:
			owed++
		default:
			got := store.Have{State: store.HavePresent, SHA256: modelSum(content), Length: 1, Version: w.Version}
			if w.Digests != "" && Satisfied(&store.Want{State: store.WantPresent, Length: -1, Digests: w.Digests}, &got) != Yes {
				owed++ // not what was announced: what is on disk stays
				continue
			}
			if w.State == store.WantAsk {
				*w = Settle(*w, true, m.clock)
				m.asked++
			}
			*h = got
		}
		m.log("  reconciled uri %d: %+v", uri, *w)
	}
	return owed
}

// TestConverge: after calm and one pull of the Source's own documents the mirror equals the Source, whatever was read
// before, in whatever order, however often (coverage.md 6, P1).
func TestConverge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, converge)
}

func converge(t *rapid.T) {
	m := &model{t: t, floor: store.NoTime, rows: map[int]*store.Want{}, haves: map[int]*store.Have{}}
	for uri := range modelURIs {
		m.haves[uri] = &store.Have{}
	}
	n := rapid.IntRange(1, 14).Draw(t, "events")
	clock := 10 * Second
	// Two changes of one resource in one instant can only be told apart by their hashes.
	coarse := rapid.Bool().Draw(t, "coarse")
	for i := range n {
		clock += Second * store.Micros(rapid.IntRange(0, 2).Draw(t, "pause"))
		if !coarse {
			clock += Second
		}
		content := byte(i + 1)
		if rapid.IntRange(0, 2).Draw(t, "deleted") == 0 {
			content = 0
		}
		m.events = append(m.events, happened{clock, rapid.IntRange(0, modelURIs-1).Draw(t, "uri"), content})
	}
	lists, notes := modelDocuments(t, m.events, coarse)
	m.clock = m.events[0].at
	m.now = 1
	for i := range rapid.IntRange(0, 25).Draw(t, "steps") {
		switch rapid.IntRange(0, 5).Draw(t, "step") {
		case 0, 1:
			if m.now < n {
				m.now++
				m.clock = m.events[m.now-1].at
			}
		case 2:
			d := rapid.SampledFrom(lists).Draw(t, "list")
			if d.begin < m.now && (!d.until.Known() || d.end <= m.now && d.until <= m.clock) {
				m.log("list %d at %d", d.id, m.clock/Second)
				m.read(d, rapid.IntRange(0, 2).Draw(t, "lag"))
			}
		case 3:
			if d := rapid.SampledFrom(notes).Draw(t, "note"); d.end <= m.now {
				m.log("notification %d at %d", d.id, m.clock/Second)
				m.read(d, 0)
			}
		case 4:
			k := rapid.IntRange(1, m.now).Draw(t, "snapshot")
			a := m.events[k-1].at
			if rapid.Bool().Draw(t, "late") && k < m.now {
				a = m.events[k].at
			}
			m.baseline(k, a, int64(1000+i), coarse || rapid.Bool().Draw(t, "digests"), rapid.Bool().Draw(t, "lastmods"))
		case 5:
			m.log("reconcile at %d", m.clock/Second)
			m.reconcile()
		}
	}
	m.now, m.clock = n, m.events[n-1].at+Second
	m.log("calm")
	for _, d := range rapid.Permutation(lists).Draw(t, "order") {
		m.read(d, 0)
	}
	owed := m.reconcile()
	for uri := range modelURIs {
		h, content := m.haves[uri], m.truth(uri, n)
		if owed > 0 || (h.State == store.HavePresent) != (content != 0) || content != 0 && h.SHA256 != modelSum(content) {
			t.Fatalf("uri %d: content %d, mirror %d %d, want %+v, owed %d\nevents %v\n%s",
				uri, content, h.State, h.SHA256[0], m.rows[uri], owed, m.events, m.history)
		}
	}
	asked := m.asked
	if owed := m.reconcile(); owed > 0 || m.asked != asked {
		t.Fatalf("a second run asked again")
	}
}

// modelDocuments cuts the history into a closed list and an open one, which share an instant, and draws notifications.
func modelDocuments(t *rapid.T, events []happened, coarse bool) (lists, notes []*modelDoc) {
	n := len(events)
	doc := func(id int64, begin, end int, from, until store.Micros) *modelDoc {
		d := &modelDoc{
			id: id, from: from, until: until, begin: begin, end: end, dated: make([]bool, n),
			digests: coarse || rapid.Bool().Draw(t, "digests"), lastmods: rapid.Bool().Draw(t, "lastmods"),
		}
		style := rapid.IntRange(0, 2).Draw(t, "style") // undated, dated, mixed
		for i := range d.dated {
			d.dated[i] = style == 1 || style == 2 && rapid.Bool().Draw(t, "dated")
		}
		return d
	}
	cut := rapid.IntRange(0, n-1).Draw(t, "cut")
	shared := cut
	for shared > 0 && events[shared-1].at == events[cut].at && rapid.Bool().Draw(t, "shared") {
		shared-- // what happened in the shared instant may stand in both lists
	}
	lists = append(lists,
		doc(1, 0, cut, events[0].at, events[cut].at),
		doc(2, shared, n, events[cut].at, store.NoTime))
	for i := range 3 {
		begin := rapid.IntRange(0, n-1).Draw(t, "begin")
		end := rapid.IntRange(begin+1, n).Draw(t, "end")
		notes = append(notes, doc(int64(10+i), begin, end, events[begin].at, events[end-1].at))
	}
	return lists, notes
}
