package sync

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"resyncd/store"
)

// item is what a topic brings for one resource: an entry of a feed, an edit of a record, a link of an entry, or the
// topic's own document.
type item struct {
	// inline: the bytes are content, or what a record's edits make; else the URI is fetched like any other.
	inline  bool
	content []byte
	// natural is the key that it gets where nothing stands in its way; "": that of its URI.
	natural string
	meta    itemMeta
	edit    *store.Edit
	from    itemFrom
	latest  bool // newer than whatever is known, whatever the clocks say
	fresh   bool // it was not there at the last pull: where nobody pushed it, others before it may be lost
}

// itemFrom is where an item comes from.
type itemFrom struct {
	Pushed bool
	// Uncached: read past all caches, so what it says is what the Source says now.
	Uncached bool
	// Now is our clock, Limit the latest instant that a change can have (the Source's clock and a little skew).
	Now, Limit store.Micros
	// Shown is when the feed itself showed the item, by the Source's clock; NoTime for older documents and pushes.
	Shown store.Micros
}

// itemMeta is what a row tells of an inline resource for people (store.Want.Meta). Pushed is when a notification brought
// it, until the feed itself does.
type itemMeta struct {
	Title     string     `json:"title,omitempty"`
	Author    string     `json:"author,omitempty"`
	Published string     `json:"published,omitempty"`
	Updated   string     `json:"updated,omitempty"`
	Source    string     `json:"source,omitempty"` // atom:source of an aggregated entry
	Pushed    *time.Time `json:"pushed,omitempty"`
	// Of what an entry links to: which entry that is, and a digest of what it said.
	Entry string `json:"entry,omitempty"`
	Says  string `json:"says,omitempty"`
}

func (m itemMeta) String() string {
	if m == (itemMeta{}) {
		return ""
	}
	b, err := json.Marshal(m)
	if err != nil {
		return ""
	}
	return string(b)
}

// metaOf reads what a row tells.
func metaOf(row *store.Want) (m itemMeta) {
	if row.Meta != "" && json.Unmarshal([]byte(row.Meta), &m) != nil {
		return itemMeta{}
	}
	return m
}

// pushedAt is when a notification brought what the row says; false for what the feed itself told.
func pushedAt(row *store.Want) (store.Micros, bool) {
	m := metaOf(row)
	if m.Pushed == nil {
		return store.NoTime, false
	}
	return store.MicrosOf(*m.Pushed), true
}

// feedLag is how long a feed may lag behind what was pushed before it is believed rather than the push (S-71, P9).
const feedLag = store.Micros(60 * 1e6)

// MergeItem lets an entry of a feed meet the row of its resource, nil for none (websub.md T-04): the newest updated wins,
// whatever the order; absence says nothing. Ask: a push that nothing orders against what is known, or a feed that
// contradicts a push; the feed is to be read (again, past caches) and decides.
func MergeItem(row *store.Want, c Candidate, from itemFrom) Decision {
	if row == nil || row.State == store.WantNone {
		return Replace
	}
	at, v := row.Version.From, c.Version.From
	invented := at.Known() && at > from.Limit // a date in the future must not win for ever
	if sameItem(row, c) {
		switch _, pushed := pushedAt(row); {
		case pushed && !from.Pushed, v > at && !invented: // the feed confirms it
			return Replace
		}
		return Repeat
	}
	switch {
	case v > at, invented && !from.Pushed:
		return Replace
	case c.State == store.WantAbsent && row.State == store.WantPresent && !row.LastMod.Known() && from.Shown > at:
		return Replace // without dates the feed that shows its end now is right
	case v == at && v.Known() && c.State == store.WantAbsent: // deleted in the instant of its last change
		return Replace
	case v == at && v.Known() && row.State == store.WantAbsent:
		return Ignore
	case v == at && from.Pushed:
		return Ask
	case v == at:
		return Replace // changed without a new date: the feed is read later than it was then
	case from.Pushed:
		if v.Known() {
			return Ignore
		}
		return Ask
	case !v.Known() && row.State == store.WantPresent && c.State == store.WantPresent:
		return Replace // it gives no dates any more
	case !v.Known() && row.State == store.WantAbsent && from.Shown > at:
		return Replace // it came back
	}
	pushed, ok := pushedAt(row)
	switch {
	case !ok || from.Now-pushed < feedLag:
		return Ignore // a stale cache, or the feed lags behind the push
	case from.Uncached:
		return Replace // nobody but the hub said so (P9)
	}
	return Ask
}

// sameItem tells whether the row says what the candidate says.
func sameItem(row *store.Want, c Candidate) bool {
	if row.State != c.State {
		return false
	}
	return c.State == store.WantAbsent || row.Digests == c.Digests
}

// mergeItem lets an item meet its row.
func (p *planner) mergeItem(r *row, e *entry) {
	it := e.item
	r.natural = it.natural
	if it.edit != nil {
		r.edits = append(r.edits, *it.edit)
		if it.fresh {
			r.fresh = append(r.fresh, it.edit.Digest)
		}
		if r.note == nil {
			r.note = e.note
		}
		return
	}
	var current *store.Want
	if r.had || r.changed {
		current = &r.want
	}
	if current != nil && current.Inline != it.inline && !it.latest { // an entry is called what another one links to
		if !it.inline || e.cand.State == store.WantAbsent {
			return
		}
		current = nil
	}
	if it.fresh && !confirms(current, e.cand) {
		p.unheard++
	}
	if it.latest && current != nil && e.cand.Version.From <= current.Version.From {
		e.cand.Version.From = current.Version.From + 1
		e.cand.Version.Until = e.cand.Version.From
	}
	decision := MergeItem(current, e.cand, it.from)
	if decision == Repeat && current != nil && it.retold(current, e.cand) {
		decision = Replace
		if e.cand.Version.From = current.Version.From + 1; !current.Version.From.Known() { // or the file would do
			e.cand.Version.From = it.from.Now
		}
		e.cand.Version.Until = e.cand.Version.From
	}
	switch decision {
	case Ask:
		p.contested = true
	case Repeat:
		r.same = true
		if !r.changed {
			r.content = it.content // in case what was brought before was lost
		}
	case Replace:
		w := e.cand.Want(p.set.ID)
		w.Inline, w.Meta = it.inline, it.meta.String()
		if current != nil && !w.Version.From.Known() { // later than what it replaces
			w.Version.From, w.Version.Until = current.Version.From, current.Version.Until
		}
		if w.State != store.WantAbsent {
			w.Refused = p.judge(e.uri, it.inline)
		}
		if p.news != nil && !it.from.Pushed && !(current != nil && sameItem(current, e.cand)) {
			p.news(e.cand.Version)
		}
		r.want, r.changed, r.content = w, true, it.content
		if r.note = e.note; w.State == store.WantAbsent {
			r.content = nil
		}
	}
}

// retoldMost bounds by how much versions grow that are told again under one date, in microseconds.
const retoldMost = 1e6

// retold: the entry that links to this resource says something else than it did, under the same date or none. What it links to
// may have changed with it, and is asked.
func (it *item) retold(row *store.Want, c Candidate) bool {
	if it.inline || it.meta.Entry == "" || c.Version.From.Known() && c.Version.From < row.Version.From-retoldMost {
		return false
	}
	was := metaOf(row)
	return was.Entry == it.meta.Entry && was.Says != it.meta.Says
}

// confirms tells whether a feed says of an entry what was pushed.
func confirms(row *store.Want, c Candidate) bool {
	if row == nil || !sameItem(row, c) {
		return false
	}
	_, pushed := pushedAt(row)
	return pushed
}

// judge is the rule by which a URI is refused. What comes with its document lies within the scope by itself.
func (p *planner) judge(uri string, inline bool) string {
	if inline {
		return p.filter(uri)
	}
	return p.scope(uri)
}

// refill: the bytes of an item were lost before they reached the mirror, and here they are again.
func (r *row) refill() bool {
	return r.content != nil && !r.changed && r.want.Inline && r.res.Work.Action == store.ActionFetch
}

// keep puts bytes at hand into the change of their resource, or drops those that are not wanted any more.
func (r *row) keep(rc *store.ResourceChange) {
	switch {
	case !r.want.Inline && (r.res.WantFor(r.want.SetID) == nil || !r.res.WantFor(r.want.SetID).Inline):
	case rc.Work.Action == store.ActionFetch && r.content != nil:
		rc.Content = r.content
	case (rc.Work.Action != store.ActionFetch || r.changed) && r.res.ID != 0: // also those of another kind of want
		rc.DropContent = true
	}
}

// inlineDigest is how a row names bytes at hand.
func inlineDigest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha-256:" + hex.EncodeToString(sum[:])
}
