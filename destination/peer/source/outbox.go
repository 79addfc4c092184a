package source

import (
	"slices"

	"resyncd/destination/rsdoc"
)

// maxNotificationBytes is about the largest notification that is made: well below what hubs and callbacks take.
const maxNotificationBytes = 4 << 20

// chunk is what one notification says, oldest first: changes, news of the framework, or edits of records.
type chunk struct {
	changes []change
	news    []news
	edits   []edit
	up      string // where the root's `up` leads
	size    int    // bytes, roughly
}

func (c *chunk) len() int { return len(c.changes) + len(c.news) + len(c.edits) }

// end is the instant of the newest entry; there is one.
func (c *chunk) end() rsdoc.Micros {
	if n := len(c.changes); n > 0 {
		return c.changes[n-1].at
	}
	if n := len(c.edits); n > 0 {
		return c.edits[n-1].at
	}
	return c.news[len(c.news)-1].at
}

// batch is a chunk with its interval: it has every entry after from up to until.
type batch struct {
	chunk
	from, until rsdoc.Micros
}

func (b *batch) notification(kind rsdoc.Kind, err error) Notification {
	return Notification{Kind: kind, From: b.from, Until: b.until, Changes: b.len(), Err: err}
}

// outbox holds what no notification has said yet. Filling it takes no longer however slow the hub is, and it is bounded
// (P8): beyond the limit the oldest chunk goes, and the hole in the intervals tells subscribers to look at the Change List.
// The Source's lock guards it, so that a change is in it exactly when it can be fetched and is listed (F93).
type outbox struct {
	most    int      // entries in a chunk
	limit   int      // chunks
	waiting []*chunk // oldest first, only the last one grows
	reached rsdoc.Micros
	// lost is the interval of what was dropped since dropped was last called: one, because only the oldest are dropped and
	// whoever takes asks for it first.
	lost  batch
	drops int // entries in lost
	// wake gets a signal when a chunk is begun: something waits, or the one before is full.
	wake chan struct{}
}

func newOutbox(most, limit int, from rsdoc.Micros) outbox {
	return outbox{most: most, limit: limit, reached: from, wake: make(chan struct{}, 1)}
}

// addChange queues a change; the caller holds the Source's lock.
func (c *channel) addChange(e change) {
	// An escaped name has up to three bytes for each of its own.
	uri := len(c.s.options.Base) + 3*len(e.name)
	size := 400 + uri + 80*len(c.s.options.Hashes)
	if c.kind == KindChangeFeed {
		size = 800 + 4*uri // id, two links and the title
	}
	k := c.out.room(size, c.hub.up)
	k.changes = append(k.changes, e)
}

// addEdit queues an edit of a record; the caller holds the Source's lock.
func (c *channel) addEdit(e edit) {
	size := 500 + len(e.Subject) + len(e.Author)
	for _, f := range e.Fields {
		size += 60 + len(f.Name) + 2*len(f.Value)
	}
	k := c.out.room(size, "")
	k.edits = append(k.edits, e)
}

// room returns the chunk that the next entry goes to.
func (o *outbox) room(size int, up string) *chunk {
	n := len(o.waiting)
	if n > 0 {
		c := o.waiting[n-1]
		if c.len() < o.most && c.size+size <= maxNotificationBytes && c.up == up {
			c.size += size
			return c
		}
	}
	if n >= o.limit {
		o.forget()
	}
	c := &chunk{up: up, size: size}
	o.waiting = append(o.waiting, c)
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return c
}

// forget drops the oldest chunk.
func (o *outbox) forget() {
	c := o.waiting[0]
	if o.drops == 0 {
		o.lost.from = o.reached
	}
	o.drops += c.len()
	o.lost.until, o.reached = c.end(), c.end()
	o.waiting = slices.Delete(o.waiting, 0, 1)
}

// take removes the oldest chunk. Its interval ends with its last entry where more follow, and else with now: an instant
// that no change has had or will have.
func (o *outbox) take(clock *clock) (batch, bool) {
	if len(o.waiting) == 0 {
		return batch{}, false
	}
	b := batch{chunk: *o.waiting[0], from: o.reached}
	o.waiting = slices.Delete(o.waiting, 0, 1)
	if b.until = b.end(); len(o.waiting) == 0 {
		b.until = clock.tick()
	}
	o.reached = b.until
	return b, true
}

// dropped returns what was lost since the last call.
func (o *outbox) dropped() (batch, int) {
	lost, n := o.lost, o.drops
	o.lost, o.drops = batch{}, 0
	return lost, n
}
