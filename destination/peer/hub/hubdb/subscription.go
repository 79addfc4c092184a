package hubdb

import (
	"context"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

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
