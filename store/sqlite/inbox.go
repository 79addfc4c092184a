package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

// Deliver implements store.Inbox.
func (s *Store) Deliver(ctx context.Context, ds []*store.Delivery, readable func()) error {
	if len(ds) == 0 && s.db.Writable() {
		return nil
	}
	g := &group{ds: ds, ids: make([]int64, len(ds)), repeated: make([]bool, len(ds)), recent: &s.recent}
	return s.db.Write(ctx, "keep deliveries", func(tx *dbfile.Session) {
		tx.WhenReadable(func() {
			for i, d := range ds { // only after the commit succeeded
				d.ID, d.Duplicate = g.ids[i], g.repeated[i]
			}
			if readable != nil {
				readable()
			}
		})
		g.apply(tx)
	})
}

// Durable implements store.Inbox.
func (s *Store) Durable(context.Context) error { return s.db.Durable() }

func resize(tx *dbfile.Session, source int64, by store.InboxSize) {
	if by == (store.InboxSize{}) {
		return
	}
	tx.Exec(`INSERT INTO inbox_share (source_id, deliveries, bytes) VALUES (?, ?, ?)
		ON CONFLICT (source_id) DO UPDATE SET deliveries = deliveries + excluded.deliveries,
		bytes = bytes + excluded.bytes`, source, by.Deliveries, by.Bytes)
}

// InboxShares implements store.Inbox.
func (s *Store) InboxShares(ctx context.Context) (map[int64]store.InboxSize, error) {
	r := s.db.Read(ctx, "size up the inbox")
	query := "SELECT source_id, deliveries, bytes FROM inbox_share WHERE deliveries <> 0"
	if s.db.Version() < schemaFeed { // the old schema has only the sum
		query = "SELECT source_id, count(*), sum(length(body)) FROM inbox WHERE kept = 0 GROUP BY source_id"
	}
	shares := map[int64]store.InboxSize{}
	for rows := range r.Rows(query) {
		var source int64
		var size store.InboxSize
		r.Fail(rows.Scan(&source, &size.Deliveries, &size.Bytes))
		shares[source] = size
	}
	return shares, r.Err()
}

// Deliveries implements store.Inbox.
func (s *Store) Deliveries(ctx context.Context, q store.InboxQuery) (out []store.Delivery, err error) {
	err = s.db.ReadFew(ctx, "read the inbox", true, func(r *dbfile.Session) {
		size := int64(0)
		// Not a bare parameter: SQLite plans by its value, so it would compile the statement anew for each push.
		for rows := range r.Rows(`SELECT id, subscription_id, source_id, set_id, kind, received, signed, digest,
			type, v_from, v_until, kept, body FROM inbox WHERE source_id = ? AND kept = ? AND id > ? ORDER BY id
			LIMIT ? + 0`, q.SourceID, column.Flag(q.Kept), q.After, max(q.Limit, 0)) {
			var d store.Delivery
			r.Fail(rows.Scan(&d.ID, &d.SubscriptionID, &d.SourceID, &d.SetID, &d.Kind, column.InstantAt(&d.Received),
				&d.Signed, column.DigestAt(&d.Digest), &d.Type, column.InstantAt(&d.From), column.InstantAt(&d.Until),
				&d.Kept, &d.Body))
			if size += int64(len(d.Body)); q.MaxBytes > 0 && size > q.MaxBytes && len(out) > 0 {
				break
			}
			out = append(out, d)
		}
	})
	return out, err
}

func (p *commit) inbox() {
	var size store.InboxSize
	for _, ch := range p.c.Inbox {
		var source, bytes int64
		var kept bool
		found := p.tx.Get("SELECT source_id, kept, length(body) FROM inbox WHERE id = ?", []any{ch.ID}, &source, &kept,
			&bytes)
		if found && source != p.source {
			p.tx.Fail(fmt.Errorf("delivery %d is not of the claimed source", ch.ID))
		}
		if !found || kept && ch.Keep {
			continue
		}
		if !kept {
			size.Deliveries--
			size.Bytes -= bytes
		}
		query := "DELETE FROM inbox WHERE id = ?"
		if ch.Keep {
			query = "UPDATE inbox SET kept = 1 WHERE id = ?"
		}
		p.tx.Exec(query, ch.ID)
	}
	resize(p.tx, p.source, size)
}

const deliveryColumns = "subscription_id, source_id, set_id, kind, received, signed, digest, type, v_from, v_until, " +
	"verdict, body"

type group struct {
	ds       []*store.Delivery
	ids      []int64
	repeated []bool
	recent   *recentBodies
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
	counts := map[int64]store.SubscriptionCounts{}
	for i, d := range g.ds {
		c, again := counts[d.SubscriptionID]
		if !again {
			c.LastDelivery = store.NoTime
		}
		c.Delivered++
		c.Duplicates += column.Flag(g.repeated[i])
		c.LastDelivery = max(c.LastDelivery, d.Received)
		counts[d.SubscriptionID] = c
	}
	for id, c := range counts {
		tx.Exec(`UPDATE subscription SET delivered = delivered + ?2, duplicates = duplicates + ?3,
			missed = 0, last_delivery = CASE WHEN last_delivery > ?4 OR ?4 IS NULL THEN last_delivery ELSE ?4 END
			WHERE id = ?1`, id, c.Delivered, c.Duplicates, column.Instant(c.LastDelivery))
	}
}

const (
	// repeatWindow is how long a body counts as already delivered, keepMarks how many bodies do, of
	// all sets together.
	repeatWindow = store.Micros(24 * time.Hour / time.Microsecond)
	keepMarks    = 100_000
)

// bodyMark stands for a body of a kind that was delivered for a set. It is half of a digest of
// these, which still cannot be forged.
type bodyMark [16]byte

const markedSize = 8 + len(bodyMark{})

func markOf(d *store.Delivery) bodyMark {
	var room [64]byte
	b := binary.BigEndian.AppendUint64(room[:0], uint64(d.SetID))
	b = append(append(b, d.Digest[:]...), d.Kind...)
	sum := sha256.Sum256(b)
	return bodyMark(sum[:])
}

// recentBodies holds the bodies delivered within the last day, up to keepMarks of the newest and at least half as
// many. The database has them packed, a row for each group, and they are looked up in memory, because an index by
// digest would change a page of its own for each. It is used while holding the writer.
type recentBodies struct {
	loaded       bool
	max          int // in both
	newer, older map[bodyMark]store.Micros
}

func (l *recentBodies) load(tx *dbfile.Session) {
	if l.loaded {
		return
	}
	l.newer, l.older = nil, nil
	for rows := range tx.Rows("SELECT packed FROM mark ORDER BY id") {
		var packed []byte
		tx.Fail(rows.Scan(&packed))
		if len(packed)%markedSize != 0 {
			tx.Fail(fmt.Errorf("%w: marks of %d bytes", column.ErrDamaged, len(packed)))
			return
		}
		for ; len(packed) > 0; packed = packed[markedSize:] {
			l.add(bodyMark(packed[8:]), store.Micros(binary.BigEndian.Uint64(packed)))
		}
	}
	l.loaded = !tx.Failed()
}

// has reports whether a body was delivered less than a day before received. A repeated body keeps
// its instant, so that one that comes again for ever is read once a day.
func (l *recentBodies) has(m bodyMark, received store.Micros) bool {
	at, there := l.newer[m]
	if !there {
		at, there = l.older[m]
	}
	return there && at > received-repeatWindow
}

func (l *recentBodies) add(m bodyMark, at store.Micros) {
	if l.newer == nil || len(l.newer) >= (l.max+1)/2 {
		l.newer, l.older = map[bodyMark]store.Micros{}, l.newer
	}
	l.newer[m] = at
}

// mark finds the deliveries that repeat one of the last day, and marks the others. Marks are
// numbered, and a row has the number of its last one, by which they are counted.
func (g *group) mark(tx *dbfile.Session, l *recentBodies, which []int) {
	if len(which) == 0 {
		return
	}
	l.load(tx)
	var made []int
	marks := make([]bodyMark, len(g.ds))
	for _, i := range which {
		d := g.ds[i]
		marks[i] = markOf(d)
		g.repeated[i] = l.has(marks[i], d.Received)
		for _, k := range made {
			g.repeated[i] = g.repeated[i] || marks[k] == marks[i] && g.ds[k].Received > d.Received-repeatWindow
		}
		if !g.repeated[i] {
			made = append(made, i)
		}
	}
	if len(made) == 0 {
		return
	}
	packed, newest := make([]byte, 0, len(made)*markedSize), store.NoTime
	for _, i := range made {
		packed = append(binary.BigEndian.AppendUint64(packed, uint64(g.ds[i].Received)), marks[i][:]...)
		newest = max(newest, g.ds[i].Received)
	}
	tx.AfterCommit(func() {
		for _, i := range made {
			l.add(marks[i], g.ds[i].Received)
		}
	})
	last := tx.Insert(`INSERT INTO mark (id, at, packed) VALUES (coalesce((SELECT max(id) FROM mark), 0) + ?, ?, ?)`,
		int64(len(made)), int64(newest), packed)
	if last/tidyRows > (last-int64(len(made)))/tidyRows {
		// Hubs may bring many more before the next Tidy. As many go as came since the last time.
		runSteps(tx, tidyMarks(0, l.max))
	}
}

func tidyMarks(before int64, keep int) step {
	return step{`DELETE FROM mark WHERE id IN (SELECT id FROM mark ORDER BY id LIMIT ?)
		AND (at < ? OR id <= (SELECT max(id) FROM mark) - ?)`, []any{tidyRows, before, keep}}
}
