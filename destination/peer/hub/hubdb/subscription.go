package hubdb

import (
	"context"
	"database/sql"
	"errors"

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
