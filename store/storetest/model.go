package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/store"
)

// model keeps resources in a map: the contract in its plainest form.
type model struct {
	sourceID int64
	rows     map[string]*store.Resource // by URI
	names    map[string]string          // name of a file: URI
	folders  map[string]bool
	contents map[string]string // by URI
}

// testModel applies random commits to the store and to the model and compares every way of reading.
func testModel(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++ // each time a Source of its own, beside those of the other times
		b.src, b.claim, _ = b.source(fmt.Sprint("model ", n))
		b.set = b.ensureSet(b.claim, "one")
		two := b.ensureSet(b.claim, "two")
		m := &model{sourceID: b.src.ID, rows: map[string]*store.Resource{}, names: map[string]string{},
			folders:  map[string]bool{},
			contents: map[string]string{}}
		sets := []int64{b.set.ID, two.ID}
		for range rapid.IntRange(1, 8).Draw(rt, "commits") {
			m.step(rt, b, sets)
		}
		m.compare(rt, b, sets)
	})
}

func drawMicros(rt *rapid.T, label string) store.Micros {
	return rapid.SampledFrom([]store.Micros{store.NoTime, 0, 10, 20, 30, 40}).Draw(rt, label)
}

func drawWant(rt *rapid.T, sets []int64) *store.Want {
	if !rapid.Bool().Draw(rt, "want") {
		return nil
	}
	w := &store.Want{
		SetID: rapid.SampledFrom(sets).Draw(rt, "set"), State: rapid.SampledFrom([]store.WantState{1, 2, 3}).Draw(rt,
			"state"),
		Length: rapid.Int64Range(-1, 3).Draw(rt, "length"), LastMod: drawMicros(rt, "lastmod"),
		Generation: rapid.Int64Range(0, 2).Draw(rt, "generation"),
		Held:       rapid.Bool().Draw(rt, "held"), Refused: rapid.SampledFrom([]string{"", "", "scope"}).Draw(rt,
			"refused"),
		Digests: rapid.SampledFrom([]string{"", "md5:00", "sha-256:" + hex64}).Draw(rt, "digests"),
	}
	w.Version = drawVersion(rt)
	w.Inline, w.Meta = rapid.Bool().Draw(rt, "inline"), rapid.SampledFrom([]string{"", "", "{}"}).Draw(rt, "meta")
	if w.Pushed = rapid.IntRange(0, 3).Draw(rt, "pushed") == 0; w.Pushed {
		w.Version.Document = -1
		w.Listed = &store.Want{SetID: w.SetID, State: rapid.SampledFrom([]store.WantState{0, 1, 2, 3}).Draw(rt,
			"listed"),
			Version: drawVersion(rt), Generation: rapid.Int64Range(0, 2).Draw(rt, "listed by"),
			Inline: rapid.Bool().Draw(rt, "listed inline"), Meta: rapid.SampledFrom([]string{"", "[]"}).Draw(rt,
				"listed meta")}
	}
	return w
}

func drawVersion(rt *rapid.T) store.Version {
	until := drawMicros(rt, "until")
	return store.Version{From: min(drawMicros(rt, "from"), until), Until: until}
}

// step draws a commit and applies it to both.
func (m *model) step(rt *rapid.T, b *bench, sets []int64) {
	c := &store.Commit{Claim: b.claim}
	next := m.clone()
	for range rapid.IntRange(0, 25).Draw(rt, "changes") {
		u := rapid.SampledFrom(strings.Split("a b c d/e d/f g h i j k l m n o p q r s t u v w x y z", " ")).Draw(rt,
			"uri")
		r := store.ResourceChange{URI: u, Want: drawWant(rt, sets)}
		if rapid.IntRange(0, 4).Draw(rt, "named") > 0 {
			r.Key = strings.ToUpper("host/" + u)
			r.Name = strings.ToLower(r.Key)
		}
		if known := m.rows[u]; known != nil && rapid.Bool().Draw(rt, "by id") {
			r.ID = known.ID
		}
		if rapid.Bool().Draw(rt, "have") {
			r.Have = rapid.SampledFrom([]*store.Have{{}, fullHave(3), fullHave(7)}).Draw(rt, "file")
		}
		if rapid.Bool().Draw(rt, "work") {
			r.Work = &store.Work{Action: rapid.SampledFrom([]store.Action{0, 1, 2}).Draw(rt, "action"),
				Due:      drawMicros(rt, "due"),
				Attempts: rapid.IntRange(0, 2).Draw(rt, "attempts")}
			if rapid.IntRange(0, 4).Draw(rt, "by a clock that was ahead") == 0 {
				r.Work.Due = store.LatestDue + store.Micros(rapid.IntRange(19, 22).Draw(rt, "ahead"))
			}
		}
		if rapid.IntRange(0, 3).Draw(rt, "content") == 0 {
			r.Content = rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(rt, "bytes")
		}
		r.DropContent = rapid.IntRange(0, 5).Draw(rt, "drop content") == 0
		c.Resources = append(c.Resources, r)
		next.apply(&r)
	}
	switch rapid.IntRange(0, 5).Draw(rt, "more") {
	case 0:
		c.DropTombstones = &store.DropTombstones{SetID: sets[0], At: 20}
		next.dropTombstones(c.DropTombstones)
	}
	if err := b.st.Commit(b.ctx, c); err != nil {
		rt.Fatal(err)
	}
	for i := range c.Resources {
		if r := next.rows[c.Resources[i].URI]; r != nil && r.ID == 0 {
			r.ID = c.Resources[i].ID
		} else if r != nil && r.ID != c.Resources[i].ID {
			rt.Fatalf("%s has id %d, then %d", r.URI, r.ID, c.Resources[i].ID)
		}
	}
	*m = *next
}

func (m *model) clone() *model {
	out := &model{sourceID: m.sourceID, rows: map[string]*store.Resource{}, names: maps.Clone(m.names),
		folders:  maps.Clone(m.folders),
		contents: maps.Clone(m.contents)}
	for u, r := range m.rows {
		c := *r
		c.Wants = slices.Clone(r.Wants)
		for i := range c.Wants {
			if l := c.Wants[i].Listed; l != nil {
				listed := *l
				c.Wants[i].Listed = &listed
			}
		}
		out.rows[u] = &c
	}
	return out
}

func (m *model) apply(c *store.ResourceChange) {
	r := m.rows[c.URI]
	if r == nil {
		r = &store.Resource{SourceID: m.sourceID, URI: c.URI}
		m.rows[c.URI] = r
	}
	if r.Key == "" && c.Key != "" {
		r.Key = c.Key
		m.names[c.Name] = c.URI
		for i, ch := range c.Name {
			if ch == '/' {
				m.folders[c.Name[:i]] = true
			}
		}
	}
	if c.Have != nil {
		r.Have = *c.Have
	}
	if c.Work != nil {
		r.Work = *c.Work
	}
	if c.DropContent {
		delete(m.contents, c.URI)
	}
	if c.Content != nil {
		m.contents[c.URI] = string(c.Content)
	}
	if c.Want != nil {
		r.Wants = slices.DeleteFunc(r.Wants, func(w store.Want) bool { return w.SetID == c.Want.SetID })
		r.Wants = append(r.Wants, *c.Want)
		slices.SortFunc(r.Wants, func(a, b store.Want) int { return cmp.Compare(a.SetID, b.SetID) })
	}
}

func (m *model) dropTombstones(d *store.DropTombstones) {
	for u, r := range m.rows {
		w := r.WantFor(d.SetID)
		if w == nil || w.State != store.WantAbsent || w.Held || w.Version.Until > d.At ||
			r.Have.State != store.HaveNone ||
			r.Work.Action != store.ActionNone || slices.ContainsFunc(r.Wants, wanted) {
			continue
		}
		r.Wants = slices.DeleteFunc(r.Wants, func(w store.Want) bool { return w.SetID == d.SetID })
		if len(r.Wants) == 0 {
			delete(m.rows, u)
			delete(m.contents, u)
			if r.Key != "" {
				delete(m.names, strings.ToLower(r.Key))
			}
		}
	}
}

func wanted(w store.Want) bool { return w.State == store.WantPresent || w.State == store.WantAsk }

// owedBy reports whether a set waits for the resource's work.
func owedBy(r *store.Resource, setID int64) bool {
	w := r.WantFor(setID)
	return w != nil && (r.Work.Action == store.ActionFetch && wanted(*w) ||
		r.Work.Action == store.ActionRemove && w.State == store.WantAbsent)
}

// where returns the rows that match, in id order.
func (m *model) where(match func(*store.Resource) bool) []*store.Resource {
	var out []*store.Resource
	for _, r := range m.rows {
		if match(r) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *store.Resource) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func (m *model) compare(rt *rapid.T, b *bench, sets []int64) {
	same := func(what string, want, got any, err error) {
		if err != nil {
			rt.Fatalf("%s: %v", what, err)
		}
		want, got = byID(want), byID(got)
		if !reflect.DeepEqual(want, got) {
			rt.Fatalf("%s (-want +got):\n%s", what, gocmp.Diff(want, got))
		}
	}
	for f, match := range map[store.Filter]func(*store.Resource, *store.Want) bool{
		store.FilterAll:     func(*store.Resource, *store.Want) bool { return true },
		store.FilterHeld:    func(_ *store.Resource, w *store.Want) bool { return w != nil && w.Held },
		store.FilterRefused: func(_ *store.Resource, w *store.Want) bool { return w != nil && w.Refused != "" },
		store.FilterAbsent: func(_ *store.Resource, w *store.Want) bool {
			return w != nil &&
				w.State == store.WantAbsent
		}, store.FilterPushed: func(_ *store.Resource,
			w *store.Want) bool {
			return w != nil && w.Pushed
		}, store.FilterMirrored: func(r *store.Resource,
			_ *store.Want) bool {
			return r.Have.State != store.HaveNone
		},
		store.FilterOwed: func(r *store.Resource, w *store.Want) bool {
			return w == nil && r.Work.Action != 0 || w != nil && owedBy(r, w.SetID)
		},
	} {
		for _, set := range append([]int64{0}, sets...) {
			if set == 0 && f == store.FilterPushed {
				continue // it needs a set
			}
			got, err := b.st.Scan(b.ctx, store.ScanQuery{SourceID: m.sourceID, SetID: set, Filter: f, Limit: 1000})
			same("scan", m.where(func(r *store.Resource) bool {
				if set != 0 {
					w := r.WantFor(set)
					return w != nil && match(r, w)
				}
				if f == store.FilterHeld || f == store.FilterRefused || f == store.FilterAbsent {
					return slices.ContainsFunc(r.Wants, func(w store.Want) bool { return match(r, &w) })
				}
				return match(r, nil)
			}), got, err)
		}
	}
	for _, set := range sets {
		m.compareSet(rt, b, set, same)
	}
	for _, a := range []store.Action{store.ActionFetch, store.ActionRemove} {
		got, err := b.st.Due(b.ctx, store.DueQuery{SourceID: m.sourceID, Action: a, Now: 20, Limit: 1000})
		same("due", m.where(func(r *store.Resource) bool { return r.Work.Action == a && r.Work.IsDue(20) }), got, err)
	}
	for u, r := range m.rows {
		want, kept := m.contents[u]
		if got, err := b.st.Content(b.ctx, r.ID); kept != (err == nil) || want != string(got) {
			rt.Fatalf("content of %s is %q (%v), want %q", u, got, err, want)
		}
	}
	var names, taken []string
	for n := range m.names {
		names, taken = append(names, n), append(taken, n)
	}
	for n := range m.folders {
		names = append(names, n)
	}
	uses, err := b.st.Names(b.ctx, m.sourceID, append(names, "free"))
	want := make([]store.NameUse, len(names)+1)
	for i, n := range names {
		if want[i] = store.NameFolder; i < len(taken) {
			want[i] = store.NameFile
		}
		_ = n
	}
	same("names", want, uses, err)
	byKey, err := b.st.ByKeys(b.ctx, m.sourceID, taken)
	same("by keys", m.where(func(r *store.Resource) bool { return r.Key != "" }), byKey, err)
}

// byID takes the order and the pointers out of lists of resources; nothing else is changed.
func byID(v any) any {
	rs, ok := v.([]*store.Resource)
	if !ok {
		return v
	}
	out := make(map[int64]store.Resource, len(rs))
	for _, r := range rs {
		c := *r
		c.Wants = append([]store.Want{}, r.Wants...)
		out[r.ID] = c
	}
	return out
}

func (m *model) compareSet(rt *rapid.T, b *bench, set int64, same func(string, any, any, error)) {
	var uris []string
	for u := range m.rows {
		uris = append(uris, u)
	}
	slices.Sort(uris)
	uris = rapid.Permutation(uris).Draw(rt, "order")
	found, err := b.st.Lookup(b.ctx, m.sourceID, set, append(uris, "none"))
	if err == nil && found[len(uris)] != nil {
		rt.Fatal("found what is not there")
	}
	all := m.clone().where(func(*store.Resource) bool { return true })
	for _, r := range all {
		r.Wants = slices.DeleteFunc(r.Wants, func(w store.Want) bool { return w.SetID != set })
	}
	if err != nil {
		rt.Fatal(err)
	}
	same("lookup", all, found[:len(uris)], nil)

	var counts store.Counts
	for _, r := range m.rows {
		if w := r.WantFor(set); w != nil {
			counts.Held += one(w.Held)
			counts.Refused += one(w.Refused != "")
			counts.Owed += one(owedBy(r, set))
		}
	}
	got, err := b.st.Counts(b.ctx, set)
	same("counts", counts, got, err)
	counts.Owed = 0
	got, err = b.st.Withheld(b.ctx, set)
	same("withheld", counts, got, err)
	open := []int64{}
	for _, r := range m.where(func(r *store.Resource) bool {
		w := r.WantFor(set)
		return w != nil && wanted(*w) && w.Generation != 1 && w.Version.Until <= 20
	}) {
		open = append(open, r.ID)
	}
	same("unlisted", open, unlisted(b, set, 1, 20), nil)
	files, bytes := b.recount(set)
	var wantFiles, wantBytes int64
	for _, r := range m.rows {
		if w := r.WantFor(set); w != nil && (wanted(*w) || w.Held) && r.Have.State != store.HaveNone {
			wantFiles, wantBytes = wantFiles+1, wantBytes+r.Have.Length
		}
	}
	same("recount", [2]int64{wantFiles, wantBytes}, [2]int64{files, bytes}, nil)
}

func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
