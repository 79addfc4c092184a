package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"resyncd/store"
)

const (
	// repeatWindow is how long a body counts as delivered already, keepMarks how many bodies do, of all sets together.
	repeatWindow = store.Micros(24 * time.Hour / time.Microsecond)
	keepMarks    = 100_000
)

// bodyMark stands for a body of a kind that was delivered for a set. It is half of a digest of these: nobody finds other ones
// for a given half.
type bodyMark [16]byte

// markedSize is what a mark takes in a row: when it was made, and itself.
const markedSize = 8 + len(bodyMark{})

func markOf(d *store.Delivery) bodyMark {
	var room [64]byte
	b := binary.BigEndian.AppendUint64(room[:0], uint64(d.SetID))
	b = append(append(b, d.Digest[:]...), d.Kind...)
	sum := sha256.Sum256(b)
	return bodyMark(sum[:])
}

// lately knows the bodies that were delivered within the last day, up to keepMarks of the newest and at least half as many. The
// database has them packed, a row for each group, and they are looked for in memory: in an index by digest each had a page of
// its own to change, which took a fifth of the time of an acknowledgement. Whoever has the turn to write uses it.
type lately struct {
	loaded     bool
	most       int // in both
	young, old map[bodyMark]store.Micros
}

// load reads what an earlier process kept.
func (l *lately) load(ctx context.Context, w *writer) error {
	if l.loaded {
		return nil
	}
	rows, err := w.query(ctx, "SELECT packed FROM mark ORDER BY id")
	if err != nil {
		return err
	}
	defer rows.Close()
	l.young, l.old = nil, nil
	for rows.Next() {
		var packed []byte
		if err := rows.Scan(&packed); err != nil {
			return err
		}
		if len(packed)%markedSize != 0 {
			return fmt.Errorf("%w: marks of %d bytes", errPayload, len(packed))
		}
		for ; len(packed) > 0; packed = packed[markedSize:] {
			l.add(bodyMark(packed[8:]), store.Micros(binary.BigEndian.Uint64(packed)))
		}
	}
	l.loaded = rows.Err() == nil
	return rows.Err()
}

// knows tells whether a body was delivered less than a day before received. One that was repeated keeps its instant, so
// that a body which comes again for ever is looked at once a day.
func (l *lately) knows(m bodyMark, received store.Micros) bool {
	at, there := l.young[m]
	if !there {
		at, there = l.old[m]
	}
	return there && at > received-repeatWindow
}

func (l *lately) add(m bodyMark, at store.Micros) {
	if l.young == nil || len(l.young) >= (l.most+1)/2 {
		l.young, l.old = map[bodyMark]store.Micros{}, l.young
	}
	l.young[m] = at
}

// mark tells which deliveries repeat one of the last day, and marks the others. Marks are numbered from the first one on, and a
// row has the number of its last one, by which they are counted.
func (g *group) mark(ctx context.Context, w *writer, l *lately, which []int) error {
	if len(which) == 0 {
		return nil
	}
	if err := l.load(ctx, w); err != nil {
		return err
	}
	var made []int
	marks := make([]bodyMark, len(g.ds))
	for _, i := range which {
		d := g.ds[i]
		marks[i] = markOf(d)
		g.repeated[i] = l.knows(marks[i], d.Received)
		for _, k := range made {
			g.repeated[i] = g.repeated[i] || marks[k] == marks[i] && g.ds[k].Received > d.Received-repeatWindow
		}
		if !g.repeated[i] {
			made = append(made, i)
		}
	}
	if len(made) == 0 {
		return nil
	}
	packed, newest := make([]byte, 0, len(made)*markedSize), store.NoTime
	for _, i := range made {
		packed = append(binary.BigEndian.AppendUint64(packed, uint64(g.ds[i].Received)), marks[i][:]...)
		newest = max(newest, g.ds[i].Received)
	}
	w.then = func() {
		for _, i := range made {
			l.add(marks[i], g.ds[i].Received)
		}
	}
	last, err := w.insert(ctx, "INSERT INTO mark (id, at, packed) VALUES (coalesce((SELECT max(id) FROM mark), 0) + ?, ?, ?)",
		int64(len(made)), int64(newest), packed)
	if err == nil && last/tidyRows > (last-int64(len(made)))/tidyRows {
		// Hubs may bring a million more before the next Tidy. No more rows came since the last time than go now.
		_, err = tidyMarks(ctx, w, 0, l.most)
	}
	return err
}

// tidyMarks drops the marks before an instant, and those beyond the newest so many.
func tidyMarks(ctx context.Context, w *writer, before int64, keep int) (more bool, err error) {
	n, err := w.exec(ctx, `DELETE FROM mark WHERE id IN (SELECT id FROM mark ORDER BY id LIMIT ?)
		AND (at < ? OR id <= (SELECT max(id) FROM mark) - ?)`, tidyRows, before, keep)
	return n == tidyRows, err
}
