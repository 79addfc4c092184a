package plan

import (
	"context"
	"os"

	"resyncd/sync/spill"
)

// A list whose URIs come in no order costs more the longer it is: once the state is larger than a batch, nearly each
// entry has a page of each index to itself, which is looked up, changed and written for it alone. In a list of
// 2,000,000 that made an entry 2.6 times as dear as in one of 20,000. So the entries of such a list are gathered, and
// planned in the order of their URIs: then a batch meets a few pages that lie side by side.
//
// They are gathered for as long as the list is as long again. So while entries are gathered, there is as much to fetch
// as was planned before; a run that is killed again and again gets further each time; and what is gathered is at most
// half of the list. What was gathered before is planned meanwhile, a batch for each batch that is gathered: a Source is
// never kept waiting for longer than one batch takes, or it might break off the list.

// Limits say when and how far entries are gathered.
type Limits struct {
	// From so many entries on that stood behind a greater one, and one in so many of all, a list counts as one in no
	// order.
	Jumps, Share int64
	Batch        int    // entries planned at once
	Held         int    // bytes of entries in memory, twice: those that are gathered and those that are planned
	Most         int64  // bytes gathered, for the same reason twice on disk, whatever a Source lists (P8)
	Dir          string // of the files; "" for the system's
}

// gathers are the limits that hold. By them a list of 10,000,000 is planned in some twenty passes, of which each still
// brings each page of an index a few entries. More memory than that, and the state of 200,000 takes more than it may
// (performance.md, goal 9).
func gathers() Limits {
	return Limits{Jumps: 1_000, Share: 16, Batch: planBatchMax, Held: 1 << 20, Most: 128 << 20}
}

// gathered are entries of the baseline that is being read which are not planned yet.
type gathered struct {
	limits  Limits
	coming  *spill.Sorter // they come into this one,
	sorted  *spill.Sorter // and go from this one
	packed  []byte        // the last one, whose memory the next one takes
	until   int64         // as many as were listed when coming began
	waiting int           // that came since the last batch was planned
	warned  bool          // the file cannot be written
}

// inNoOrder tells that what is listed is to be gathered. Once something was, all the rest is, up to the end of the
// list: of one URI the entries are to be planned in the order of the document.
func (p *Planner) inNoOrder() bool {
	return p.order.gathered != nil || p.order.jumps >= max(p.order.limits.Jumps, p.order.listed/p.order.limits.Share)
}

// gather queues an entry of a baseline until its turn in the order of URIs has come.
func (p *Planner) gather(ctx context.Context, e *Entry) error {
	g := p.order.gathered
	if g == nil {
		if err := p.plan(ctx); err != nil { // what came before it
			return err
		}
		l := p.order.limits
		g = &gathered{limits: l, until: p.order.listed - 1, coming: spill.NewSorter(l.Held, l.Dir), sorted: spill.NewSorter(l.Held, l.Dir)}
		p.order.gathered = g
	}
	g.packed = pack(g.packed[:0], e)
	err := g.coming.Add(g.packed)
	if err != nil && !g.warned {
		g.warned = true
		p.o.Site.Log.Warn("entries of a list whose URIs are in no order cannot be kept in a temporary file; the list takes longer without: "+
			"make room there, or have TMPDIR name another folder", "folder", g.folder(), "err", err)
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

// turnOver has what was gathered planned from now on. What is left of what was gathered before is older.
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

// planSorted plans a batch of what was gathered before, and tells whether that was a full one.
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

// sortedBatch is how many entries in order make a batch: as many as of a list in order, whose pages they meet as those
// do.
func (p *Planner) sortedBatch() int64 {
	return min(max(planBatch, p.order.listed/batchListed), int64(p.order.gathered.limits.Batch))
}

// PlanAll plans all that came and was not planned yet.
func (p *Planner) PlanAll(ctx context.Context) error {
	if p.order.gathered != nil {
		for range 2 { // those gathered before, then the last ones
			if err := p.turnOver(ctx); err != nil {
				return err
			}
		}
	}
	p.Release()
	return p.plan(ctx)
}

// Release gives up what was gathered, and its memory and files.
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
