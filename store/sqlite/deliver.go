package sqlite

import (
	"cmp"
	"context"
	"slices"

	"resyncd/store"
)

const (
	deliveryHead = `INSERT OR FAIL INTO inbox (subscription_id, source_id, set_id, kind, received, signed, digest, type, v_from,
		v_until, verdict, body) VALUES `
	deliveryRow = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

	markHead = "INSERT OR FAIL INTO mark (set_id, n, kind, digest, at) VALUES "
	markRow  = "(?, ?, ?, ?, ?)"
	markTail = " ON CONFLICT (set_id, kind, digest) DO NOTHING"
)

// group is one call of Deliver.
type group struct {
	ds       []*store.Delivery
	ids      []int64
	repeated []bool
	args     []any
}

// received is what a group brought for one subscription.
type received struct {
	id                    int64
	delivered, duplicates int64
	last                  store.Micros
}

func (g *group) apply(ctx context.Context, w *writer) error {
	known := map[int64]bool{} // Sources that are not forgotten
	var keep, marks []int
	for i, d := range g.ds {
		there, asked := known[d.SourceID]
		if !asked {
			var err error
			if there, err = knownSource(ctx, w, d.SourceID); err != nil {
				return err
			}
			known[d.SourceID] = there
		}
		if !there {
			continue
		}
		if keep = append(keep, i); d.Signed && d.From.Known() && d.Until.Known() && d.Received.Known() {
			marks = append(marks, i)
		}
	}
	if err := g.mark(ctx, w, marks); err != nil {
		return err
	}
	keep = slices.DeleteFunc(keep, func(i int) bool { return g.repeated[i] })
	if err := g.insert(ctx, w, keep); err != nil {
		return err
	}
	if err := g.count(ctx, w); err != nil {
		return err
	}
	grown := map[int64]store.InboxSize{} // by Source
	for _, i := range keep {
		d := g.ds[i]
		size := grown[d.SourceID]
		size.Deliveries++
		size.Bytes += int64(len(d.Body))
		grown[d.SourceID] = size
	}
	for source, size := range grown {
		if err := resize(ctx, w, source, size); err != nil {
			return err
		}
	}
	return nil
}

// few is how many of n rows the next statement writes. Groups are of any size: these few statements make up all of them.
func few(n int) int {
	size := 16
	for size > n {
		size /= 2
	}
	return size
}

// insert adds deliveries, in order.
func (g *group) insert(ctx context.Context, w *writer, which []int) error {
	for len(which) > 0 {
		n := few(len(which))
		g.args = g.args[:0]
		for _, i := range which[:n] {
			d := g.ds[i]
			g.args = append(g.args, d.SubscriptionID, d.SourceID, d.SetID, string(d.Kind), ms(d.Received), flag(d.Signed), d.Digest[:],
				d.Type, ms(d.From), ms(d.Until), d.Verdict, bytesOf(d.Body))
		}
		last, err := w.insert(ctx, deliveryHead+rowsOf(deliveryRow, n), g.args...)
		if err != nil {
			return err
		}
		for k, i := range which[:n] { // a statement numbers its rows one after another
			g.ids[i] = last - int64(n-1-k)
		}
		which = which[n:]
	}
	return nil
}

// mark tells which deliveries repeat one of the last day, and marks the others.
func (g *group) mark(ctx context.Context, w *writer, which []int) error {
	slices.SortStableFunc(which, func(a, b int) int { return cmp.Compare(g.ds[a].SetID, g.ds[b].SetID) })
	for len(which) > 0 {
		set := g.ds[which[0]].SetID
		n := slices.IndexFunc(which, func(i int) bool { return g.ds[i].SetID != set })
		if n < 0 {
			n = len(which)
		}
		if err := g.markSet(ctx, w, set, which[:n]); err != nil {
			return err
		}
		which = which[n:]
	}
	return nil
}

// markSet marks deliveries of one set, at the end, where the newest are. As long as none is repeated that is done at once.
func (g *group) markSet(ctx context.Context, w *writer, set int64, which []int) error {
	var end int64
	err := w.get(ctx, "SELECT coalesce((SELECT n FROM mark WHERE set_id = ? ORDER BY n DESC LIMIT 1), 0)", []any{set}, &end)
	if err != nil {
		return err
	}
	at, repeated := end, false
	for rest := which; len(rest) > 0 && !repeated; {
		n := few(len(rest))
		g.args = g.args[:0]
		for _, i := range rest[:n] {
			d := g.ds[i]
			at++
			g.args = append(g.args, set, at, string(d.Kind), d.Digest[:markSize], int64(d.Received))
		}
		made, err := w.exec(ctx, markHead+rowsOf(markRow, n)+markTail, g.args...)
		if err != nil {
			return err
		}
		repeated = made != int64(n)
		rest = rest[n:]
	}
	if !repeated {
		return nil
	}
	// One by one, without holes in the count, which would be taken for marks (tidyMarks).
	if _, err := w.exec(ctx, "DELETE FROM mark WHERE set_id = ? AND n > ?", set, end); err != nil {
		return err
	}
	for _, i := range which {
		if g.repeated[i], err = marked(ctx, w, g.ds[i]); err != nil {
			return err
		}
	}
	return nil
}

// marked tells whether a delivery repeats one of the last day, and marks it if it does not. A repeated one leaves the
// mark as it is, so that a body which comes again for ever is looked at once a day.
func marked(ctx context.Context, w *writer, d *store.Delivery) (bool, error) {
	args := []any{d.SetID, string(d.Kind), d.Digest[:markSize], int64(d.Received)}
	const mark = `INSERT INTO mark (set_id, kind, digest, at, n) VALUES (?1, ?2, ?3, ?4,
		coalesce((SELECT n FROM mark WHERE set_id = ?1 ORDER BY n DESC LIMIT 1), 0) + 1) ON CONFLICT (set_id, kind, digest) DO NOTHING`
	n, err := w.exec(ctx, mark, args...)
	if err != nil || n > 0 {
		return false, err
	}
	// It is known; an old mark makes room for a new one, at the end, where the newest are.
	n, err = w.exec(ctx, "DELETE FROM mark WHERE set_id = ? AND kind = ? AND digest = ? AND at <= ?", d.SetID, string(d.Kind),
		d.Digest[:markSize], int64(d.Received-repeatWindow))
	if err != nil || n == 0 {
		return err == nil, err
	}
	_, err = w.exec(ctx, mark, args...)
	return false, err
}

// count adds what a group brought to the counts of its subscriptions.
func (g *group) count(ctx context.Context, w *writer) error {
	var counts []received
	for i, d := range g.ds {
		at := slices.IndexFunc(counts, func(c received) bool { return c.id == d.SubscriptionID })
		if at < 0 {
			at = len(counts)
			counts = append(counts, received{id: d.SubscriptionID, last: store.NoTime})
		}
		c := &counts[at]
		c.delivered++
		c.duplicates += flag(g.repeated[i])
		c.last = max(c.last, d.Received)
	}
	for _, c := range counts {
		_, err := w.exec(ctx, `UPDATE subscription SET delivered = delivered + ?2, duplicates = duplicates + ?3, missed = 0,
			last_delivery = CASE WHEN last_delivery > ?4 OR ?4 IS NULL THEN last_delivery ELSE ?4 END WHERE id = ?1`,
			c.id, c.delivered, c.duplicates, ms(c.last))
		if err != nil {
			return err
		}
	}
	return nil
}
