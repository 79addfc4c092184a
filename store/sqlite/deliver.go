package sqlite

import (
	"slices"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

const (
	deliveryHead = `INSERT OR FAIL INTO inbox (subscription_id, source_id, set_id, kind, received, signed, digest,
		type, v_from, v_until, verdict, body) VALUES `
	deliveryRow = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', ?)" // verdict is what versions before 0.10 wrote
)

type group struct {
	ds       []*store.Delivery
	ids      []int64
	repeated []bool
	args     []any
	recent   *recentBodies
}

type received struct {
	id                    int64
	delivered, duplicates int64
	last                  store.Micros
}

func (g *group) apply(tx *dbfile.Session) {
	known := map[int64]bool{} // existing Sources
	var keep, marks []int
	for i, d := range g.ds {
		there, asked := known[d.SourceID]
		if !asked {
			there = knownSource(tx, d.SourceID)
			known[d.SourceID] = there
		}
		if !there {
			continue
		}
		if keep = append(keep, i); d.Signed && d.From.Known() && d.Until.Known() && d.Received.Known() {
			marks = append(marks, i)
		}
	}
	g.mark(tx, g.recent, marks)
	keep = slices.DeleteFunc(keep, func(i int) bool { return g.repeated[i] })
	g.insert(tx, keep)
	g.count(tx)
	grown := map[int64]store.InboxSize{} // by Source
	for _, i := range keep {
		d := g.ds[i]
		size := grown[d.SourceID]
		size.Deliveries++
		size.Bytes += int64(len(d.Body))
		grown[d.SourceID] = size
	}
	for source, size := range grown {
		resize(tx, source, size)
	}
}

func (g *group) insert(tx *dbfile.Session, which []int) {
	for part := range batches(which) {
		g.args = g.args[:0]
		for _, i := range part {
			d := g.ds[i]
			g.args = append(g.args, d.SubscriptionID, d.SourceID, d.SetID, string(d.Kind), column.Instant(d.Received),
				column.Flag(d.Signed), d.Digest[:],
				d.Type, column.Instant(d.From), column.Instant(d.Until), column.NotNil(d.Body))
		}
		last := tx.Insert(deliveryHead+rowsOf(deliveryRow, len(part)), g.args...)
		for k, i := range part { // a statement numbers its rows one after another
			g.ids[i] = last - int64(len(part)-1-k)
		}
	}
}

func (g *group) count(tx *dbfile.Session) {
	var counts []received
	for i, d := range g.ds {
		at := slices.IndexFunc(counts, func(c received) bool { return c.id == d.SubscriptionID })
		if at < 0 {
			at = len(counts)
			counts = append(counts, received{id: d.SubscriptionID, last: store.NoTime})
		}
		c := &counts[at]
		c.delivered++
		c.duplicates += column.Flag(g.repeated[i])
		c.last = max(c.last, d.Received)
	}
	for _, c := range counts {
		tx.Exec(`UPDATE subscription SET delivered = delivered + ?2, duplicates = duplicates + ?3,
			missed = 0, last_delivery = CASE WHEN last_delivery > ?4 OR ?4 IS NULL THEN last_delivery ELSE ?4 END
			WHERE id = ?1`, c.id, c.delivered, c.duplicates, column.Instant(c.last))
	}
}
