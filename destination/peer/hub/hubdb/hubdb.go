// Package hubdb keeps what the companion hub must not forget in one SQLite file. It refuses to know what the hub does.
package hubdb

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"log/slog"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

const application = 0x72736862

//go:embed migrations/0001_init.sql
var initial string

//go:embed migrations/0002_dialect.sql
var dialect string

// DB is a hubstate.State on one file of its own.
type DB struct{ f *dbfile.File }

var _ hubstate.State = (*DB)(nil)

// Open opens a hub's database; dbfile.Open says how. A nil log discards.
func Open(ctx context.Context, path string, log *slog.Logger) (*DB, error) {
	f, err := dbfile.Open(ctx, path, schema(initial, dialect), dbfile.Options{Alone: true, Log: log})
	if err != nil {
		return nil, err
	}
	return &DB{f}, nil
}

// Close closes the database and lets another hub have it.
func (d *DB) Close() error { return d.f.Close() }

func schema(scripts ...string) dbfile.Schema {
	return dbfile.Schema{Owner: "hub", Application: application, Scripts: scripts}
}

const topicColumns = "id, url, last, floor, etag, last_modified, digest, pinged"

func topicFields(t *hubstate.Topic) []any {
	return []any{&t.ID, &t.URL, &t.Last, &t.Floor, &t.ETag, &t.LastModified, column.DigestAt(&t.Digest),
		column.InstantAt(&t.Pinged)}
}

const subscriptionColumns = `s.id, s.topic_id, t.url, s.callback, s.secret, s.old, s.verify_token, s.verified,
	s.expires, s.cursor, s.attempts, s.next, s.delivered, s.dropped`

func subscriptionFields(s *hubstate.Subscription) []any {
	return []any{&s.ID, &s.TopicID, &s.Topic, &s.Callback, &s.Secret, &s.Old, &s.VerifyToken,
		column.InstantAt(&s.Verified), column.InstantAt(&s.Expires), &s.Cursor, &s.Attempts, column.InstantAt(&s.Next),
		&s.Delivered, &s.Dropped}
}

// Topics implements hubstate.State.
func (d *DB) Topics(ctx context.Context) ([]hubstate.Topic, error) {
	found, err := dbfile.All(ctx, d.f, topicFields, "SELECT "+topicColumns+" FROM hub_topic ORDER BY id")
	return found, d.f.Fail("read the topics", err)
}

// Subscriptions implements hubstate.State.
func (d *DB) Subscriptions(ctx context.Context) ([]hubstate.Subscription, error) {
	found, err := dbfile.All(ctx, d.f, subscriptionFields, "SELECT "+subscriptionColumns+
		" FROM hub_subscription s JOIN hub_topic t ON t.id = s.topic_id ORDER BY s.id")
	return found, d.f.Fail("read the subscriptions", err)
}

// Subscribe implements hubstate.State.
func (d *DB) Subscribe(
	ctx context.Context, in hubstate.Subscription,
) (sub hubstate.Subscription, topic hubstate.Topic, err error) {
	err = d.f.Write(ctx, "record a subscription", func(ctx context.Context, tx *dbfile.Writer) error {
		_, err := tx.Exec(ctx, "INSERT INTO hub_topic (url) VALUES (?) ON CONFLICT (url) DO NOTHING", in.Topic)
		if err != nil {
			return err
		}
		topic, err = dbfile.One(ctx, tx, topicFields, "SELECT "+topicColumns+" FROM hub_topic WHERE url = ?", in.Topic)
		if err != nil {
			return err
		}
		// One whose lease was over is not owed what came since.
		_, err = tx.Exec(ctx, `INSERT INTO hub_subscription
				(topic_id, callback, secret, verified, expires, cursor, old, verify_token)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
			ON CONFLICT (topic_id, callback) DO UPDATE SET secret = ?3, verified = ?4, expires = ?5, old = ?7,
				verify_token = ?8,
				cursor = CASE WHEN expires > ?4 THEN cursor ELSE ?6 END,
				attempts = CASE WHEN expires > ?4 THEN attempts ELSE 0 END,
				next = CASE WHEN expires > ?4 THEN next END`,
			topic.ID, in.Callback, in.Secret, column.Instant(in.Verified), column.Instant(in.Expires), topic.Last,
			in.Old, in.VerifyToken)
		if err != nil {
			return err
		}
		sub, err = dbfile.One(ctx, tx, subscriptionFields, "SELECT "+subscriptionColumns+
			" FROM hub_subscription s JOIN hub_topic t ON t.id = s.topic_id WHERE s.topic_id = ? AND s.callback = ?",
			topic.ID, in.Callback)
		return err
	})
	return sub, topic, err
}

// End implements hubstate.State.
func (d *DB) End(ctx context.Context, ids ...int64) error {
	if len(ids) == 0 {
		return nil
	}
	return d.f.Write(ctx, "end subscriptions", func(ctx context.Context, tx *dbfile.Writer) error {
		topics := map[int64]bool{}
		for _, id := range ids {
			var topic int64
			err := tx.Get(ctx, "SELECT topic_id FROM hub_subscription WHERE id = ?", []any{id}, &topic)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return err
			}
			topics[topic] = true
			if _, err := tx.Exec(ctx, "DELETE FROM hub_subscription WHERE id = ?", id); err != nil {
				return err
			}
		}
		for topic := range topics {
			if err := endTopic(ctx, tx, topic); err != nil {
				return err
			}
		}
		return nil
	})
}

// endTopic drops a topic that has no subscription left, and what one with fewer of them keeps for nobody.
func endTopic(ctx context.Context, tx *dbfile.Writer, topic int64) error {
	n, err := tx.Exec(ctx, `DELETE FROM hub_topic WHERE id = ?1
		AND NOT EXISTS (SELECT 1 FROM hub_subscription WHERE topic_id = ?1)`, topic)
	if err != nil {
		return err
	}
	if n == 0 {
		return trim(ctx, tx, topic, 0, 0)
	}
	_, err = tx.Exec(ctx, "DELETE FROM hub_notification WHERE topic_id = ?", topic)
	return err
}

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
