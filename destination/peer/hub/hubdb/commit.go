package hubdb

import (
	"context"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

// Commit implements hubstate.State.
func (d *DB) Commit(ctx context.Context, c *hubstate.Commit) error {
	return d.f.Write(ctx, "record the hub's work", func(tx *dbfile.Session) {
		tx.WhenReadable(c.Readable)
		t := commit{tx: tx, touched: map[int64]bool{}}
		t.apply(c)
	})
}

type commit struct {
	tx      *dbfile.Session
	touched map[int64]bool // topics whose notifications may have become too many, or needless
}

func (t *commit) apply(c *hubstate.Commit) {
	for _, n := range c.Notifications {
		n.Number = 0
		t.notification(n)
	}
	for _, p := range c.Pings {
		// Later than the one before in any case, so that a look never answers a ping that came after it.
		t.tx.Exec("UPDATE hub_topic SET pinged = max(?, coalesce(pinged + 1, ?)) WHERE url = ?",
			int64(p.At), int64(p.At), p.Topic)
	}
	for i := range c.Progress {
		t.progress(&c.Progress[i])
	}
	for i := range c.Looks {
		l := &c.Looks[i]
		t.tx.Exec(`UPDATE hub_topic SET etag = CASE WHEN digest = ?1 THEN ?2 ELSE etag END,
				last_modified = CASE WHEN digest = ?1 THEN ?3 ELSE last_modified END,
				pinged = CASE WHEN pinged > ?4 THEN pinged END WHERE url = ?5`,
			l.Digest[:], l.ETag, l.LastModified, int64(l.Ping), l.Topic)
	}
	for topic := range t.touched {
		trim(t.tx, topic, c.Keep, c.KeepBytes)
	}
}

// notification records content, unless nobody subscribes.
func (t *commit) notification(n *hubstate.Notification) {
	var topic int64
	if !t.tx.Get(`UPDATE hub_topic SET last = last + 1, bytes = bytes + ?, digest = ?,
			etag = '', last_modified = ''
		WHERE url = ? RETURNING id, last`, []any{len(n.Body), n.Digest[:], n.Topic}, &topic, &n.Number) {
		return
	}
	t.touched[topic] = true
	t.tx.Exec(`INSERT INTO hub_notification (topic_id, number, received, type, link, digest, body)
		VALUES (?, ?, ?, ?, ?, ?, ?)`,
		topic, n.Number, column.Instant(n.Received), n.Type, n.Link, n.Digest[:], column.NotNil(n.Body))
}

func (t *commit) progress(p *hubstate.Progress) {
	var topic int64
	if t.tx.Get(`UPDATE hub_subscription SET cursor = max(cursor, ?), attempts = ?, next = ?,
			delivered = delivered + ?, dropped = dropped + ? WHERE id = ? RETURNING topic_id`,
		[]any{p.Cursor, p.Attempts, column.Instant(p.Next), p.Delivered, p.Dropped, p.SubscriptionID}, &topic) {
		t.touched[topic] = true
	}
}

// trim drops what every subscriber is done with, and what is beyond the bounds.
func trim(tx *dbfile.Session, topic, keep, keepBytes int64) {
	var last, floor, left, done int64
	if !tx.Get(`SELECT last, floor, bytes,
			coalesce((SELECT min(cursor) FROM hub_subscription WHERE topic_id = t.id), last)
		FROM hub_topic t WHERE id = ?`, []any{topic}, &last, &floor, &left, &done) {
		return
	}
	to := max(floor, min(done, last))
	if keep > 0 {
		to = max(to, last-keep)
	}
	left -= drop(tx, topic, floor, to)
	for ; keepBytes > 0 && left > keepBytes && to < last-1 && !tx.Failed(); to++ {
		left -= drop(tx, topic, to, to+1)
	}
	if to != floor {
		tx.Exec("UPDATE hub_topic SET floor = ?, bytes = ? WHERE id = ?", to, left, topic)
	}
}

// drop drops those in (from, to] and returns how many bytes they had.
func drop(tx *dbfile.Session, topic, from, to int64) (gone int64) {
	if to > from {
		const which = " FROM hub_notification WHERE topic_id = ? AND number > ? AND number <= ?"
		tx.Get("SELECT coalesce(sum(length(body)), 0)"+which, []any{topic, from, to}, &gone)
		tx.Exec("DELETE"+which, topic, from, to)
	}
	return gone
}

// Notifications implements hubstate.State.
func (d *DB) Notifications(
	ctx context.Context, topicID, after int64, limit int, maxBytes int64,
) (out []hubstate.Notification, err error) {
	r := d.f.Read(ctx, "read notifications")
	size := int64(0)
	for rows := range r.Rows(`SELECT t.url, n.number, n.received, n.type, n.link, n.digest, n.body
		FROM hub_notification n JOIN hub_topic t ON t.id = n.topic_id
		WHERE n.topic_id = ? AND n.number > ? ORDER BY n.number LIMIT ?`, topicID, after, limit) {
		var n hubstate.Notification
		r.Fail(rows.Scan(&n.Topic, &n.Number, column.InstantAt(&n.Received), &n.Type, &n.Link,
			column.DigestAt(&n.Digest), &n.Body))
		out = append(out, n)
		if size += int64(len(n.Body)); size >= maxBytes {
			break
		}
	}
	return out, r.Err()
}
