package sqlite

import (
	"context"
	"time"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

// recordStep keeps a step in the life of a subscription, in the transaction that makes it: another
// state, or a lease that was verified anew. before is nil for a new one.
func recordStep(ctx context.Context, w *dbfile.Writer, before, now *store.Subscription) error {
	var was store.SubscriptionState
	verified := now.Verified.Known()
	if before != nil {
		was = before.State
		verified = verified && before.Verified != now.Verified
	}
	if before != nil && was == now.State && before.Verified == now.Verified {
		return nil
	}
	var lease int64
	if verified {
		lease = now.Granted
	}
	from, to := idRange(now.SourceID)
	_, err := w.Exec(ctx, `INSERT INTO subscription_event (id, subscription_id, set_id, kind, topic, hub, at, was, state, lease, reason)
		SELECT 1 + coalesce((SELECT id FROM subscription_event WHERE id >= ?1 AND id < ?2 ORDER BY id DESC LIMIT 1), ?1),
			?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12
		FROM source c WHERE c.id = ?13 AND c.name IS NOT NULL`, // the row of a forgotten one would never be dropped
		from, to, now.ID, now.SetID, string(now.Kind), now.Topic, now.Hub, column.Instant(store.MicrosOf(time.Now())), string(was),
		string(now.State), lease, now.Reason, now.SourceID)
	return err
}

// SubscriptionEvents implements store.Chronicle.
func (s *Store) SubscriptionEvents(ctx context.Context, sourceID int64, limit int) ([]store.SubscriptionEvent, error) {
	const what = "read the history of subscriptions"
	if s.lacks(schemaChronicle) {
		return nil, nil
	}
	from, to := idRange(sourceID)
	rows, err := s.db.Query(ctx, `SELECT id, subscription_id, set_id, kind, topic, hub, at, was, state, lease, reason
		FROM subscription_event WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT ?`, from, to, max(limit, 0))
	if err != nil {
		return nil, s.db.Fail(what, err)
	}
	events, err := collect(rows, func(row rowScanner) (e store.SubscriptionEvent, err error) {
		e.SourceID = sourceID
		err = row.Scan(&e.ID, &e.SubscriptionID, &e.SetID, &e.Kind, &e.Topic, &e.Hub, column.IntoInstant(&e.At), &e.From, &e.To,
			&e.Lease,
			&e.Reason)
		return e, err
	})
	return events, s.db.Fail(what, err)
}
