package source

import (
	"slices"

	"resyncd/destination/rsdoc"
)

// maxNotificationBytes is about the largest notification, well below what hubs and callbacks take.
const maxNotificationBytes = 4 << 20

// batch is what one notification tells: every entry after from up to until, oldest first.
type batch struct {
	changes     []change
	documents   []documentChange
	edits       []edit
	up          string // where the root's `up` leads
	size        int    // bytes, roughly
	from, until rsdoc.Micros
}

func (b *batch) len() int { return len(b.changes) + len(b.documents) + len(b.edits) }

// end is the instant of the newest entry.
func (b *batch) end() rsdoc.Micros {
	if n := len(b.changes); n > 0 {
		return b.changes[n-1].at
	}
	if n := len(b.edits); n > 0 {
		return b.edits[n-1].at
	}
	return b.documents[len(b.documents)-1].at
}

// join is one notification for two that follow each other.
func (b batch) join(next batch) batch {
	next.from = b.from
	next.size += b.size
	next.changes = slices.Concat(b.changes, next.changes)
	next.documents = slices.Concat(b.documents, next.documents)
	next.edits = slices.Concat(b.edits, next.edits)
	return next
}

// addChange queues a change; the Source is locked.
func (c *channel) addChange(e change) {
	// An escaped byte has three.
	uri := len(c.s.options.Base) + 3*len(e.name)
	size := 400 + uri + 80*len(c.s.options.Hashes)
	if c.kind == changeFeedKind {
		size = 800 + 4*uri
	}
	b := c.room(size, c.s.at(capabilityList))
	b.changes = append(b.changes, e)
}

// addEdit queues an edit; the Source is locked.
func (c *channel) addEdit(e edit) {
	size := 500 + len(e.Subject) + len(e.Author)
	for _, f := range e.Fields {
		size += 60 + len(f.Name) + 2*len(f.Value)
	}
	b := c.room(size, "")
	b.edits = append(b.edits, e)
}

// room returns the batch for the next entry; the Source is locked.
func (c *channel) room(size int, up string) *batch {
	n := len(c.batches)
	if n > 0 {
		b := c.batches[n-1]
		if b.len() < c.s.options.NotifyMax && b.size+size <= maxNotificationBytes && b.up == up {
			b.size += size
			return b
		}
	}
	if n >= c.s.options.notifyQueue {
		c.drop()
	}
	b := &batch{up: up, size: size}
	c.batches = append(c.batches, b)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return b
}

// drop drops the oldest batch.
func (c *channel) drop() {
	b := c.oldest()
	c.log(&b).Warn("notifications dropped, subscribers will see a gap")
}

// oldest removes the oldest batch; there is one.
func (c *channel) oldest() batch {
	b := *c.batches[0]
	c.batches = slices.Delete(c.batches, 0, 1)
	b.from, b.until = c.reached, b.end()
	c.reached = b.until
	return b
}
