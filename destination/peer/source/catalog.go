package source

// pageSize is the number of records that are copied at once.
const pageSize = 64

// maxTombstones is how many deleted names are answered with 410 Gone rather than 404 Not Found.
const maxTombstones = 10_000

// record is what is published about one resource. It is small because a million of them are held.
type record struct {
	name     string // unescaped path; "" where it follows from the slot
	sums     string // the other digests, one after another
	sum      [32]byte
	length   int64
	modified int64 // HTTP Last-Modified, in seconds since 1970, or when it died
	version  int64 // of a dead record with a name, the number of its deletion
	live     bool
}

type page struct {
	epoch   uint64
	records [pageSize]record
}

// frozen is the catalog at one instant.
type frozen struct {
	pages []*page
	slots int
	live  int
}

func (f *frozen) at(slot int) *record { return &f.pages[slot/pageSize].records[slot%pageSize] }

// catalog holds the records by slot. A page is copied only when it is next written, so that a snapshot costs next to
// nothing.
type catalog struct {
	frozen
	epoch      uint64
	index      map[string]int // nil where the name follows from the slot
	tombstones []tombstone    // oldest first, some of records that live again
	deletions  int64
	free       []int
}

type tombstone struct {
	slot   int
	number int64
}

func (c *catalog) freeze() frozen {
	c.epoch++
	return frozen{pages: append([]*page(nil), c.pages...), slots: c.slots, live: c.live}
}

// edit returns a record to write.
func (c *catalog) edit(slot int) *record {
	p := c.pages[slot/pageSize]
	if p.epoch != c.epoch {
		clone := *p
		clone.epoch = c.epoch
		p = &clone
		c.pages[slot/pageSize] = p
	}
	return &p.records[slot%pageSize]
}

// find returns the slot of a name, dead or alive.
func (c *catalog) find(name string) (int, bool) {
	if c.index == nil {
		n, ok := Synthetic{}.number(name)
		return n - 1, ok && n <= c.slots
	}
	slot, ok := c.index[name]
	return slot, ok
}

// name is the name of what is or was in a slot. It needs no lock.
func (c *catalog) name(slot int, rec *record) string {
	if c.index == nil {
		return Synthetic{}.Name(slot + 1)
	}
	return rec.name
}

// slotFor returns the slot of a name, a new one if need be.
func (c *catalog) slotFor(name string) int {
	if slot, ok := c.index[name]; ok {
		return slot
	}
	var slot int
	if n := len(c.free); n > 0 {
		slot, c.free = c.free[n-1], c.free[:n-1]
	} else {
		slot = c.grow()
	}
	*c.edit(slot) = record{name: name}
	c.index[name] = slot
	return slot
}

// grow adds a dead record at the end.
func (c *catalog) grow() int {
	if c.slots%pageSize == 0 {
		c.pages = append(c.pages, &page{epoch: c.epoch})
	}
	c.slots++
	return c.slots - 1
}

// put replaces the record in a slot; the name stays.
func (c *catalog) put(slot int, next record) {
	r := c.edit(slot)
	switch {
	case next.live && !r.live:
		c.live++
	case !next.live && r.live:
		c.live--
	}
	next.name = r.name
	*r = next
}

// remove marks a record as dead; beyond maxTombstones it forgets the oldest dead one.
func (c *catalog) remove(slot int, died int64) {
	r := *c.at(slot)
	r.live, r.modified = false, died
	if c.index == nil {
		c.put(slot, r)
		return
	}
	c.deletions++
	r.version = c.deletions
	c.put(slot, r)
	c.tombstones = append(c.tombstones, tombstone{slot, c.deletions})
	if len(c.tombstones) <= maxTombstones {
		return
	}
	oldest := c.tombstones[0]
	c.tombstones = c.tombstones[1:]
	if r := c.at(oldest.slot); !r.live && r.version == oldest.number {
		delete(c.index, r.name)
		c.free = append(c.free, oldest.slot)
	}
}
