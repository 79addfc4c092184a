package source

// pageSize is the number of records that are copied at once when a record changes that a Resource List still needs.
const pageSize = 64

// maxGraves is how many deleted names are remembered, to be answered with 410 Gone. Older ones become 404 Not Found.
const maxGraves = 10_000

// record is what is published about one resource. A million of them are held, so it is small and has no time.Time.
type record struct {
	name     string // path below the root, unescaped bytes; "" where the slot number says it
	sums     string // the other digests, one after another, as the digester orders them
	sum      [32]byte
	length   int64
	modified int64 // HTTP Last-Modified, in seconds since 1970; of a dead record when it died
	version  int64 // made-up resources: 0, 1, 2, …; of a dead record with a name, the number of its burial
	live     bool
}

type page struct {
	epoch   uint64
	records [pageSize]record
}

// catalog holds the records by slot. It is frozen in the time it takes to copy the page table: a page is copied only
// when it is next written (copy on write), so a Resource List is a consistent snapshot that costs next to nothing.
type catalog struct {
	pages []*page
	slots int
	live  int
	epoch uint64
	index map[string]int // nil where the name follows from the slot
	// graves are the slots of the dead, oldest first; an entry that has lived again since is skipped.
	graves  []grave
	burials int64
	free    []int
}

type grave struct {
	slot   int
	burial int64
}

// frozen is the catalog at one instant.
type frozen struct {
	pages []*page
	slots int
	live  int
}

func (c *catalog) freeze() frozen {
	c.epoch++
	return frozen{pages: append([]*page(nil), c.pages...), slots: c.slots, live: c.live}
}

func (f frozen) at(slot int) *record { return &f.pages[slot/pageSize].records[slot%pageSize] }

// at returns a record to read.
func (c *catalog) at(slot int) *record { return &c.pages[slot/pageSize].records[slot%pageSize] }

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
	slot, ok := c.index[name]
	return slot, ok
}

// slotFor returns the slot of a name, giving it one if it has none.
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

// bury marks a record as dead, and forgets the one that has been dead for longest if there are many.
func (c *catalog) bury(slot int, died int64) {
	r := *c.at(slot)
	r.live, r.modified = false, died
	if c.index == nil {
		c.put(slot, r)
		return
	}
	c.burials++
	r.version = c.burials
	c.put(slot, r)
	c.graves = append(c.graves, grave{slot, c.burials})
	if len(c.graves) <= maxGraves {
		return
	}
	oldest := c.graves[0]
	c.graves = c.graves[1:]
	if r := c.at(oldest.slot); !r.live && r.version == oldest.burial {
		delete(c.index, r.name)
		c.free = append(c.free, oldest.slot)
	}
}
