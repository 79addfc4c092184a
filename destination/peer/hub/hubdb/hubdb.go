// Package hubdb keeps what the companion hub must not forget in one SQLite file. It refuses to know what the hub does.
package hubdb

import (
	"context"
	_ "embed"
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
	r := d.f.Read(ctx, "read the topics")
	return dbfile.All(r, topicFields, "SELECT "+topicColumns+" FROM hub_topic ORDER BY id"), r.Err()
}

// Subscriptions implements hubstate.State.
func (d *DB) Subscriptions(ctx context.Context) ([]hubstate.Subscription, error) {
	r := d.f.Read(ctx, "read the subscriptions")
	return dbfile.All(r, subscriptionFields, "SELECT "+subscriptionColumns+
		" FROM hub_subscription s JOIN hub_topic t ON t.id = s.topic_id ORDER BY s.id"), r.Err()
}

// Subscribe implements hubstate.State.
func (d *DB) Subscribe(
	ctx context.Context, in hubstate.Subscription,
) (sub hubstate.Subscription, topic hubstate.Topic, err error) {
	err = d.f.Write(ctx, "record a subscription", func(tx *dbfile.Session) {
		tx.Exec("INSERT INTO hub_topic (url) VALUES (?) ON CONFLICT (url) DO NOTHING", in.Topic)
		topic = dbfile.One(tx, topicFields, "SELECT "+topicColumns+" FROM hub_topic WHERE url = ?", in.Topic)
		// One whose lease was over is not owed what came since.
		tx.Exec(`INSERT INTO hub_subscription
				(topic_id, callback, secret, verified, expires, cursor, old, verify_token)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
			ON CONFLICT (topic_id, callback) DO UPDATE SET secret = ?3, verified = ?4, expires = ?5, old = ?7,
				verify_token = ?8,
				cursor = CASE WHEN expires > ?4 THEN cursor ELSE ?6 END,
				attempts = CASE WHEN expires > ?4 THEN attempts ELSE 0 END,
				next = CASE WHEN expires > ?4 THEN next END`,
			topic.ID, in.Callback, in.Secret, column.Instant(in.Verified), column.Instant(in.Expires), topic.Last,
			in.Old, in.VerifyToken)
		sub = dbfile.One(tx, subscriptionFields, "SELECT "+subscriptionColumns+
			" FROM hub_subscription s JOIN hub_topic t ON t.id = s.topic_id WHERE s.topic_id = ? AND s.callback = ?",
			topic.ID, in.Callback)
	})
	return sub, topic, err
}

// End implements hubstate.State.
func (d *DB) End(ctx context.Context, ids ...int64) error {
	if len(ids) == 0 {
		return nil
	}
	return d.f.Write(ctx, "end subscriptions", func(tx *dbfile.Session) {
		topics := map[int64]bool{}
		for _, id := range ids {
			var topic int64
			if tx.Get("DELETE FROM hub_subscription WHERE id = ? RETURNING topic_id", []any{id}, &topic) {
				topics[topic] = true
			}
		}
		for topic := range topics {
			endTopic(tx, topic)
		}
	})
}

// endTopic drops a topic that has no subscription left, and what one with fewer of them keeps for nobody.
func endTopic(tx *dbfile.Session, topic int64) {
	if tx.Exec(`DELETE FROM hub_topic WHERE id = ?1
		AND NOT EXISTS (SELECT 1 FROM hub_subscription WHERE topic_id = ?1)`, topic) == 0 {
		trim(tx, topic, 0, 0)
	} else {
		tx.Exec("DELETE FROM hub_notification WHERE topic_id = ?", topic)
	}
}

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
			int64(p.Pinged), int64(p.Pinged), p.URL)
	}
	for _, p := range c.Progress {
		var topic int64
		if t.tx.Get(`UPDATE hub_subscription SET cursor = max(cursor, ?), attempts = ?, next = ?,
				delivered = delivered + ?, dropped = dropped + ? WHERE id = ? RETURNING topic_id`,
			[]any{p.Cursor, p.Attempts, column.Instant(p.Next), p.Delivered, p.Dropped, p.ID}, &topic) {
			t.touched[topic] = true
		}
	}
	for _, l := range c.Looks {
		t.tx.Exec(`UPDATE hub_topic SET etag = CASE WHEN digest = ?1 THEN ?2 ELSE etag END,
				last_modified = CASE WHEN digest = ?1 THEN ?3 ELSE last_modified END,
				pinged = CASE WHEN pinged > ?4 THEN pinged END WHERE url = ?5`,
			l.Digest[:], l.ETag, l.LastModified, int64(l.Pinged), l.URL)
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
