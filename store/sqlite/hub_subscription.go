package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"resyncd/store"
)

const hubTopicColumns = "id, url, last, floor, etag, last_modified, digest, pinged"

func scanHubTopic(row rowScanner) (t store.HubTopic, err error) {
	var digest []byte
	err = row.Scan(&t.ID, &t.URL, &t.Last, &t.Floor, &t.ETag, &t.LastModified, &digest, (*micros)(&t.Pinged))
	copy(t.Digest[:], digest)
	return t, err
}

const hubSubscriptionColumns = `s.id, s.topic_id, t.url, s.callback, s.secret, s.old, s.verify_token, s.verified, s.expires, s.cursor, s.attempts,
	s.next, s.delivered, s.dropped`

func scanHubSubscription(row rowScanner) (s store.HubSubscription, err error) {
	err = row.Scan(&s.ID, &s.TopicID, &s.Topic, &s.Callback, &s.Secret, &s.Old, &s.VerifyToken, (*micros)(&s.Verified),
		(*micros)(&s.Expires), &s.Cursor, &s.Attempts, (*micros)(&s.Next), &s.Delivered, &s.Dropped)
	return s, err
}

// Topics implements store.HubState.
func (h *Hub) Topics(ctx context.Context) ([]store.HubTopic, error) {
	const what = "read the topics"
	rows, err := h.s.r.query(ctx, "SELECT "+hubTopicColumns+" FROM hub_topic ORDER BY id")
	if err != nil {
		return nil, h.s.fail(what, err)
	}
	out, err := collect(rows, scanHubTopic)
	return out, h.s.fail(what, err)
}

// Subscriptions implements store.HubState.
func (h *Hub) Subscriptions(ctx context.Context) ([]store.HubSubscription, error) {
	const what = "read the subscriptions"
	rows, err := h.s.r.query(ctx, "SELECT "+hubSubscriptionColumns+
		" FROM hub_subscription s JOIN hub_topic t ON t.id = s.topic_id ORDER BY s.id")
	if err != nil {
		return nil, h.s.fail(what, err)
	}
	out, err := collect(rows, scanHubSubscription)
	return out, h.s.fail(what, err)
}

// Subscribe implements store.HubState.
func (h *Hub) Subscribe(ctx context.Context, in store.HubSubscription) (sub store.HubSubscription, topic store.HubTopic, err error) {
	err = h.s.write(ctx, "record a subscription", func(ctx context.Context, w *writer) error {
		_, err := w.exec(ctx, "INSERT INTO hub_topic (url) VALUES (?) ON CONFLICT (url) DO NOTHING", in.Topic)
		if err != nil {
			return err
		}
		if topic, err = one(ctx, w, scanHubTopic, "SELECT "+hubTopicColumns+" FROM hub_topic WHERE url = ?", in.Topic); err != nil {
			return err
		}
		// One whose lease was over is not owed what came since.
		_, err = w.exec(ctx, `INSERT INTO hub_subscription (topic_id, callback, secret, verified, expires, cursor, old, verify_token)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
			ON CONFLICT (topic_id, callback) DO UPDATE SET secret = ?3, verified = ?4, expires = ?5, old = ?7, verify_token = ?8,
				cursor = CASE WHEN expires > ?4 THEN cursor ELSE ?6 END,
				attempts = CASE WHEN expires > ?4 THEN attempts ELSE 0 END,
				next = CASE WHEN expires > ?4 THEN next END`,
			topic.ID, in.Callback, in.Secret, ms(in.Verified), ms(in.Expires), topic.Last, in.Old, in.VerifyToken)
		if err != nil {
			return err
		}
		sub, err = one(ctx, w, scanHubSubscription, "SELECT "+hubSubscriptionColumns+
			" FROM hub_subscription s JOIN hub_topic t ON t.id = s.topic_id WHERE s.topic_id = ? AND s.callback = ?",
			topic.ID, in.Callback)
		return err
	})
	return sub, topic, err
}

// one reads a row that must be there, through the writer.
func one[T any](ctx context.Context, w *writer, scan func(rowScanner) (T, error), query string, args ...any) (T, error) {
	st, err := w.prepare(ctx, query)
	if err != nil {
		var none T
		return none, err
	}
	return scan(st.QueryRowContext(ctx, args...))
}

// End implements store.HubState.
func (h *Hub) End(ctx context.Context, ids ...int64) error {
	if len(ids) == 0 {
		return nil
	}
	return h.s.write(ctx, "end subscriptions", func(ctx context.Context, w *writer) error {
		topics := map[int64]bool{}
		for _, id := range ids {
			var topic int64
			err := w.get(ctx, "SELECT topic_id FROM hub_subscription WHERE id = ?", []any{id}, &topic)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return err
			}
			topics[topic] = true
			if _, err := w.exec(ctx, "DELETE FROM hub_subscription WHERE id = ?", id); err != nil {
				return err
			}
		}
		for topic := range topics {
			if err := endHubTopic(ctx, w, topic); err != nil {
				return err
			}
		}
		return nil
	})
}

// endHubTopic drops a topic that has no subscription left, and what one with fewer of them keeps for nobody.
func endHubTopic(ctx context.Context, w *writer, topic int64) error {
	n, err := w.exec(ctx, `DELETE FROM hub_topic WHERE id = ?1
		AND NOT EXISTS (SELECT 1 FROM hub_subscription WHERE topic_id = ?1)`, topic)
	if err != nil {
		return err
	}
	if n == 0 {
		return trimHubTopic(ctx, w, topic, 0, 0)
	}
	_, err = w.exec(ctx, "DELETE FROM hub_notification WHERE topic_id = ?", topic)
	return err
}
