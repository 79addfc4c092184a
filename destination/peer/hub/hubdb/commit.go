package hubdb

import (
	"context"
	"database/sql"
	"errors"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

// Commit implements hubstate.State.
func (d *DB) Commit(ctx context.Context, c *hubstate.Commit) error {
	const what = "record the hub's work"
	return d.f.WriteReadable(ctx, what, c.Readable, func(ctx context.Context, tx *dbfile.Writer) error {
		t := commit{tx: tx, touched: map[int64]bool{}}
		return t.apply(ctx, c)
	})
}

type commit struct {
	tx      *dbfile.Writer
	touched map[int64]bool // topics whose notifications may have become too many, or needless
}

func (t *commit) apply(ctx context.Context, c *hubstate.Commit) error {
	for _, n := range c.Notifications {
		n.Number = 0
		if err := t.notification(ctx, n); err != nil {
			return err
		}
	}
	for _, p := range c.Pings {
		// Later than the one before in any case, so that a look never answers a ping that came after it.
		_, err := t.tx.Exec(ctx, "UPDATE hub_topic SET pinged = max(?, coalesce(pinged + 1, ?)) WHERE url = ?",
			int64(p.At), int64(p.At), p.Topic)
		if err != nil {
			return err
		}
	}
	for i := range c.Progress {
		if err := t.progress(ctx, &c.Progress[i]); err != nil {
			return err
		}
	}
	for i := range c.Looks {
		l := &c.Looks[i]
		_, err := t.tx.Exec(ctx, `UPDATE hub_topic SET etag = CASE WHEN digest = ?1 THEN ?2 ELSE etag END,
				last_modified = CASE WHEN digest = ?1 THEN ?3 ELSE last_modified END,
				pinged = CASE WHEN pinged > ?4 THEN pinged END WHERE url = ?5`,
			l.Digest[:], l.ETag, l.LastModified, int64(l.Ping), l.Topic)
		if err != nil {
			return err
		}
	}
	for topic := range t.touched {
		if err := trim(ctx, t.tx, topic, c.Keep, c.KeepBytes); err != nil {
			return err
		}
	}
	return nil
}

// notification records content, unless nobody subscribes.
func (t *commit) notification(ctx context.Context, n *hubstate.Notification) error {
	var topic int64
	err := t.tx.Get(ctx, `UPDATE hub_topic SET last = last + 1, bytes = bytes + ?, digest = ?,
			etag = '', last_modified = ''
		WHERE url = ? RETURNING id, last`, []any{len(n.Body), n.Digest[:], n.Topic}, &topic, &n.Number)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	t.touched[topic] = true
	_, err = t.tx.Exec(ctx, `INSERT INTO hub_notification (topic_id, number, received, type, link, digest, body)
		VALUES (?, ?, ?, ?, ?, ?, ?)`,
		topic, n.Number, column.Instant(n.Received), n.Type, n.Link, n.Digest[:], column.NotNil(n.Body))
	return err
}

func (t *commit) progress(ctx context.Context, p *hubstate.Progress) error {
	var topic int64
	err := t.tx.Get(ctx, `UPDATE hub_subscription SET cursor = max(cursor, ?), attempts = ?, next = ?,
			delivered = delivered + ?, dropped = dropped + ? WHERE id = ? RETURNING topic_id`,
		[]any{p.Cursor, p.Attempts, column.Instant(p.Next), p.Delivered, p.Dropped, p.SubscriptionID}, &topic)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	t.touched[topic] = true
	return err
}

// trim drops what every subscriber is done with, and what is beyond the bounds.
func trim(ctx context.Context, tx *dbfile.Writer, topic, keep, keepBytes int64) error {
	var last, floor, bytes, done int64
	err := tx.Get(ctx, `SELECT last, floor, bytes,
			coalesce((SELECT min(cursor) FROM hub_subscription WHERE topic_id = t.id), last)
		FROM hub_topic t WHERE id = ?`, []any{topic}, &last, &floor, &bytes, &done)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	to := max(floor, min(done, last))
	if keep > 0 {
		to = max(to, last-keep)
	}
	left, err := drop(ctx, tx, topic, floor, to, bytes)
	if err != nil {
		return err
	}
	for keepBytes > 0 && left > keepBytes && to < last-1 {
		if left, err = drop(ctx, tx, topic, to, to+1, left); err != nil {
			return err
		}
		to++
	}
	if to == floor {
		return nil
	}
	_, err = tx.Exec(ctx, "UPDATE hub_topic SET floor = ?, bytes = ? WHERE id = ?", to, left, topic)
	return err
}

// drop drops those in (from, to] and returns how many bytes are left.
func drop(ctx context.Context, tx *dbfile.Writer, topic, from, to, bytes int64) (int64, error) {
	if to <= from {
		return bytes, nil
	}
	var gone int64
	const which = " FROM hub_notification WHERE topic_id = ? AND number > ? AND number <= ?"
	err := tx.Get(ctx, "SELECT coalesce(sum(length(body)), 0)"+which, []any{topic, from, to}, &gone)
	if err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, "DELETE"+which, topic, from, to)
	return bytes - gone, err
}

// Notifications implements hubstate.State.
func (d *DB) Notifications(
	ctx context.Context, topicID, after int64, limit int, maxBytes int64,
) ([]hubstate.Notification, error) {
	const what = "read notifications"
	rows, err := d.f.Query(ctx, `SELECT t.url, n.number, n.received, n.type, n.link, n.digest, n.body
		FROM hub_notification n JOIN hub_topic t ON t.id = n.topic_id
		WHERE n.topic_id = ? AND n.number > ? ORDER BY n.number LIMIT ?`, topicID, after, limit)
	if err != nil {
		return nil, d.f.Fail(what, err)
	}
	defer rows.Close()
	var out []hubstate.Notification
	for size := int64(0); (len(out) == 0 || size < maxBytes) && rows.Next(); {
		var n hubstate.Notification
		err := rows.Scan(&n.Topic, &n.Number, column.InstantAt(&n.Received), &n.Type, &n.Link,
			column.DigestAt(&n.Digest), &n.Body)
		if err != nil {
			return nil, d.f.Fail(what, err)
		}
		size += int64(len(n.Body))
		out = append(out, n)
	}
	return out, d.f.Fail(what, rows.Err())
}
