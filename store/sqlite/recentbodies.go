package sqlite

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

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
