package plan

import (
	"context"
	"encoding/binary"
	"errors"
	"os"

	"resyncd/store"
	"resyncd/sync/spill"
)

// In a long list with unordered URIs nearly every entry touches index pages of its own. So such entries are gathered
// and planned in URI order, where neighbours share pages.
//
// Gathering lasts until the list has doubled, so a run that is killed repeatedly still gets further. Each gathered
// batch has an older batch planned beside it: a Source that waits too long may break off the list.

// Limits are the limits of gathering.
type Limits struct {
	// A list counts as unordered after Jumps entries behind a greater URI, one in Share of all.
	Jumps, Share int64
	Batch        int
	Held         int    // bytes in memory, for each of two sorters
	Most         int64  // bytes on disk, likewise (P8)
	Dir          string // temporary files; "" for the system's
}

// gathers returns the limits in use. More memory would exceed performance.md, goal 9.
func gathers() Limits {
	return Limits{Jumps: 1_000, Share: 16, Batch: planBatchMax, Held: 1 << 20, Most: 128 << 20}
}

type gathered struct {
	limits  Limits
	coming  *spill.Sorter // filled by gather
	sorted  *spill.Sorter // emptied by planSorted
	packed  []byte
	until   int64 // coming is full at so many
	waiting int   // entries since the last batch
	warned  bool
}

// inNoOrder reports whether entries are gathered. Gathering lasts to the list's end, because entries of one URI must be
// planned in document order.
func (p *Planner) inNoOrder() bool {
	return p.order.gathered != nil || p.order.jumps >= max(p.order.limits.Jumps, p.order.listed/p.order.limits.Share)
}

func (p *Planner) gather(ctx context.Context, e *Entry) error {
	g := p.order.gathered
	if g == nil {
		if err := p.plan(ctx); err != nil {
			return err
		}
		l := p.order.limits
		g = &gathered{limits: l, until: p.order.listed - 1, coming: spill.NewSorter(l.Held, l.Dir),
			sorted: spill.NewSorter(l.Held, l.Dir)}
		p.order.gathered = g
	}
	g.packed = pack(g.packed[:0], e)
	err := g.coming.Add(g.packed)
	if err != nil && !g.warned {
		g.warned = true
		p.o.Site.Log.Warn(
			"entries of a list whose URIs are in no order cannot be kept in a temporary file; the list takes longer "+
				"without: make room there, or have TMPDIR name another folder", "folder", g.folder(), "err", err)
	}
	if g.waiting++; int64(g.waiting) >= p.sortedBatch() {
		g.waiting = 0
		if _, err := p.planSorted(ctx); err != nil {
			return err
		}
	}
	if err == nil && g.coming.Len() < g.until && g.coming.Bytes() < g.limits.Most {
		return nil
	}
	return p.turnOver(ctx)
}

func (g *gathered) folder() string {
	if g.limits.Dir != "" {
		return g.limits.Dir
	}
	return os.TempDir()
}

// turnOver swaps the sorters. Entries left in the old one are older and come first.
func (p *Planner) turnOver(ctx context.Context) error {
	g := p.order.gathered
	for more := true; more; {
		var err error
		if more, err = p.planSorted(ctx); err != nil {
			return err
		}
	}
	p.empty(g.sorted)
	g.coming, g.sorted, g.until = g.sorted, g.coming, p.order.listed
	return g.sorted.Sort()
}

// planSorted plans one batch of sorted entries and reports whether it was full.
func (p *Planner) planSorted(ctx context.Context) (more bool, err error) {
	g := p.order.gathered
	for int64(len(p.Batch)) < p.sortedBatch() {
		record, ok, err := g.sorted.Next()
		if err != nil {
			return false, err
		}
		if !ok {
			return false, p.plan(ctx)
		}
		e, err := unpack(record)
		if err != nil {
			return false, g.sorted.Unreadable(err)
		}
		p.Batch = append(p.Batch, e)
	}
	return true, p.plan(ctx)
}

func (p *Planner) sortedBatch() int64 {
	return min(max(planBatch, p.order.listed/batchListed), int64(p.order.gathered.limits.Batch))
}

// PlanAll plans every queued entry.
func (p *Planner) PlanAll(ctx context.Context) error {
	if p.order.gathered != nil {
		for range 2 {
			if err := p.turnOver(ctx); err != nil {
				return err
			}
		}
	}
	p.Release()
	return p.plan(ctx)
}

// Release frees the memory and files of gathering.
func (p *Planner) Release() {
	if g := p.order.gathered; g != nil {
		p.empty(g.coming)
		p.empty(g.sorted)
		p.order.gathered = nil
	}
}

func (p *Planner) empty(s *spill.Sorter) {
	if err := s.Reset(); err != nil {
		p.o.Site.Log.Warn("a temporary file may be left behind", "err", err)
	}
}

// A packed entry is its URI (the record's key) and its Candidate: strings behind their lengths, numbers as varints. No
// later run reads the form.

var errPacked = errors.New("not as it was written")

// pack appends the record of a baseline entry.
func pack(b []byte, e *Entry) []byte {
	c := &e.Cand
	b = spill.AppendKey(b, e.URI)
	b = append(b, byte(c.State))
	b = append(b, bit(e.Trusted)|bit(e.Hinted)<<1)
	for _, n := range [...]int64{
		int64(c.Version.From), int64(c.Version.Until), c.Version.Ordinal, c.Version.Document, c.Length,
		int64(c.LastMod),
	} {
		b = binary.AppendVarint(b, n)
	}
	for _, s := range [...]string{c.Digests, c.Type, c.Links} {
		b = spill.AppendKey(b, s)
	}
	return b
}

func bit(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// unpack reads a record. All strings share one allocation.
func unpack(record []byte) (Entry, error) {
	u := unpacker{whole: string(record), rest: record}
	e := Entry{Baseline: true, URI: u.string()}
	c := &e.Cand
	c.State = store.WantState(u.byte())
	flags := u.byte()
	e.Trusted, e.Hinted = flags&1 != 0, flags&2 != 0
	c.Version = store.Version{From: store.Micros(u.int()), Until: store.Micros(u.int()), Ordinal: u.int(),
		Document: u.int()}
	c.Length, c.LastMod = u.int(), store.Micros(u.int())
	c.Digests, c.Type, c.Links = u.string(), u.string(), u.string()
	if u.bad || len(u.rest) > 0 {
		return Entry{}, errPacked
	}
	return e, nil
}

// unpacker returns zero values after the first missing part.
type unpacker struct {
	whole string
	rest  []byte
	bad   bool
}

func (u *unpacker) skip(n int) {
	if n <= 0 || n > len(u.rest) {
		u.bad, n = true, len(u.rest)
	}
	u.rest = u.rest[n:]
}

func (u *unpacker) byte() (b byte) {
	if len(u.rest) > 0 {
		b = u.rest[0]
	}
	u.skip(1)
	return b
}

func (u *unpacker) int() int64 {
	n, w := binary.Varint(u.rest)
	u.skip(w)
	return n
}

func (u *unpacker) string() string {
	n, w := binary.Uvarint(u.rest)
	u.skip(w)
	if u.bad || n > uint64(len(u.rest)) {
		u.bad = true
		return ""
	}
	at := len(u.whole) - len(u.rest)
	u.rest = u.rest[n:]
	return u.whole[at : at+int(n)]
}
