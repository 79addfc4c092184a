package sqlite

import (
	"slices"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

const deliveryColumns = "subscription_id, source_id, set_id, kind, received, signed, digest, type, v_from, v_until, " +
	"verdict, body"

type group struct {
	ds       []*store.Delivery
	ids      []int64
	repeated []bool
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
	grown := map[int64]store.InboxSize{} // by Source
	id := writeRows(tx, "OR FAIL INTO inbox", deliveryColumns, "", keep, func(args []any, i int) []any {
		d := g.ds[i]
		size := grown[d.SourceID]
		grown[d.SourceID] = store.InboxSize{Deliveries: size.Deliveries + 1, Bytes: size.Bytes + int64(len(d.Body))}
		// The verdict is what versions before 0.10 wrote.
		return append(args, d.SubscriptionID, d.SourceID, d.SetID, string(d.Kind), column.Instant(d.Received),
			column.Flag(d.Signed), d.Digest[:], d.Type, column.Instant(d.From), column.Instant(d.Until), "",
			column.NotNil(d.Body))
	})
	for _, i := range slices.Backward(keep) { // a transaction numbers its rows one after another
		g.ids[i] = id
		id--
	}
	g.count(tx)
	for source, size := range grown {
		resize(tx, source, size)
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
