package plan

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"os"

	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/spill"
)

// In a long list with unordered URIs nearly every entry touches index pages of its own, so such entries are gathered
// until the list has doubled, and planned in URI order. An older batch is planned beside each that is gathered: a
// Source that waits too long may break off the list.

// Limits are the limits of gathering.
type Limits struct {
	// A list counts as unordered after Jumps entries behind a greater URI, one in Share of all.
	Jumps, Share int64
	Batch        int
	Held         int    // bytes in memory, for each of two sorters
	Most         int64  // bytes on disk, likewise (P8)
	Dir          string // temporary files; "" for the system's
}

// gathers are the limits in use. More memory would exceed performance.md, goal 9.
var gathers = Limits{Jumps: 1_000, Share: 16, Batch: planBatchMax, Held: 1 << 20, Most: 128 << 20}

type gathered struct {
	coming  *spill.Sorter // filled by gather
	sorted  *spill.Sorter // emptied by planSorted
	packed  []byte
	until   int64 // coming is full at so many
	waiting int   // entries since the last batch
	warned  bool
}

// inNoOrder reports whether entries are gathered: to the list's end, or entries of one URI would change their order.
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
		g = &gathered{until: p.order.listed - 1, coming: spill.NewSorter(l.Held, l.Dir),
			sorted: spill.NewSorter(l.Held, l.Dir)}
		p.order.gathered = g
	}
	g.packed = pack(g.packed[:0], e)
	err := g.coming.Add(g.packed)
	if err != nil && !g.warned {
		g.warned = true
		p.o.Site.Log.Warn(
			"entries of a list whose URIs are in no order cannot be kept in a temporary file; the list takes longer "+
				"without: make room there, or have TMPDIR name another folder",
			"folder", cmp.Or(p.order.limits.Dir, os.TempDir()), "err", err)
	}
	if g.waiting++; int64(g.waiting) >= p.sortedBatch() {
		g.waiting = 0
		if _, err := p.planSorted(ctx); err != nil {
			return err
		}
	}
	if err == nil && g.coming.Len() < g.until && g.coming.Bytes() < p.order.limits.Most {
		return nil
	}
	return p.turnOver(ctx)
}

// turnOver swaps the sorters once the older entries are planned.
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
	return min(max(planBatch, p.order.listed/batchListed), int64(p.order.limits.Batch))
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

// A packed entry is its texts, each behind its length, and its numbers. The first text is the URI, the record's key.

var errPacked = errors.New("not as it was written")

type packed struct {
	State           store.WantState
	Trusted, Hinted bool
	Left            bool
	Version         store.Version
	Length          int64
	LastMod         store.Micros
}

func pack(b []byte, e *Entry) []byte {
	c := &e.Cand
	for _, text := range [...]string{e.URI, c.Digests, c.Type, c.Links} {
		b = spill.AppendKey(b, text)
	}
	n := packed{c.State, e.Trusted, e.Hinted, c.Left, c.Version, c.Length, c.LastMod}
	b, _ = binary.Append(b, binary.LittleEndian, &n)
	return b
}

func unpack(record []byte) (Entry, error) {
	var texts [4]string
	whole, at := string(record), 0
	for i := range texts {
		size, w := binary.Uvarint(record[at:])
		if at += w; w <= 0 || size > uint64(len(record)-at) {
			return Entry{}, errPacked
		}
		texts[i] = whole[at : at+int(size)]
		at += int(size)
	}
	var n packed
	if used, err := binary.Decode(record[at:], binary.LittleEndian, &n); err != nil || at+used < len(record) {
		return Entry{}, errPacked
	}
	return Entry{URI: texts[0], Baseline: true, Trusted: n.Trusted, Hinted: n.Hinted, Cand: merge.Candidate{
		State: n.State, Version: n.Version, Digests: texts[1], Length: n.Length, LastMod: n.LastMod, Type: texts[2],
		Links: texts[3], Left: n.Left,
	}}, nil
}
