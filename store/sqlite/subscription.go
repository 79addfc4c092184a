package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

const (
	// callerColumns are written by callers, countColumns by the store.
	callerColumns = `source_id, set_id, kind, topic, hub, token, secret, state, replaces, asked, granted, requested,
		verified, renew, expires, rotated, next, attempts, profile, reason, ended`
	countColumns = `last_delivery, delivered, duplicates, rejected_signature, rejected_too_large, rejected_malformed,
		push_misses, missed`
	callerFields       = 21
	selectSubscription = "SELECT " + callerColumns + ", id, " + countColumns + " FROM subscription"
)

// subscriptionFields begin with those of callerColumns.
func subscriptionFields(s *store.Subscription) []any {
	return []any{&s.SourceID, &s.SetID, &s.Kind, &s.Topic, &s.Hub, &s.Token, &s.Secret, &s.State, &s.Replaces,
		&s.Asked, &s.Granted, column.InstantAt(&s.Requested), column.InstantAt(&s.Verified), column.InstantAt(&s.Renew),
		column.InstantAt(&s.Expires), column.InstantAt(&s.Rotated), column.InstantAt(&s.Next), &s.Attempts, &s.Profile,
		column.CausedAt(&s.Reason, &s.Cause), column.InstantAt(&s.Ended), &s.ID, column.InstantAt(&s.LastDelivery),
		&s.Delivered, &s.Duplicates, &s.RejectedSignature, &s.RejectedTooLarge, &s.RejectedMalformed, &s.PushMisses,
		&s.Missed}
}

// AddSubscription implements store.Subscriptions.
func (s *Store) AddSubscription(ctx context.Context, sub *store.Subscription) error {
	var id int64
	err := s.db.Write(ctx, "record a subscription", func(ctx context.Context, w *dbfile.Writer) error {
		if sub.Token == "" {
			return errors.New("it has no callback token")
		}
		if known, err := knownSource(ctx, w, sub.SourceID); err != nil {
			return err
		} else if !known { // it would never end
			return fmt.Errorf("source %d: %w", sub.SourceID, store.ErrNotFound)
		}
		added := *sub
		var err error
		added.ID, err = w.Insert(ctx, insertInto("subscription", callerColumns),
			subscriptionFields(sub)[:callerFields]...)
		if err != nil {
			return tokenTaken(err)
		}
		id = added.ID
		return recordStep(ctx, w, nil, &added)
	})
	if err != nil {
		return err
	}
	sub.ID = id
	sub.SubscriptionCounts = store.SubscriptionCounts{LastDelivery: store.NoTime}
	return nil
}

// tokenTaken names the only constraint that a subscription can violate.
func tokenTaken(err error) error {
	if dbfile.Repeats(err, "subscription.token") {
		return errors.New("its callback token is another subscription's")
	}
	return err
}

// knownSource reports whether a Source exists and is not forgotten.
func knownSource(ctx context.Context, w *dbfile.Writer, id int64) (known bool, err error) {
	err = w.Get(ctx, "SELECT EXISTS (SELECT 1 FROM source WHERE id = ? AND name IS NOT NULL)", []any{id}, &known)
	return known, err
}

// ChangeSubscription implements store.Subscriptions.
func (s *Store) ChangeSubscription(ctx context.Context, id int64,
	fn func(*store.Subscription) error) (store.Subscription, error) {
	var now store.Subscription
	var refused error // by fn
	err := s.db.Write(ctx, fmt.Sprintf("change subscription %d", id), func(ctx context.Context,
		w *dbfile.Writer) error {
		before, err := dbfile.One(ctx, w, subscriptionFields, selectSubscription+" WHERE id = ?", id)
		if err != nil {
			return err
		}
		now = before
		if refused = fn(&now); refused != nil {
			return refused
		}
		now.ID = before.ID
		now.SubscriptionCounts = before.SubscriptionCounts
		if now == before {
			return nil
		}
		_, err = w.Exec(ctx, update("subscription", callerColumns)+"id = ?",
			append(subscriptionFields(&now)[:callerFields], id)...)
		if err != nil {
			return tokenTaken(err)
		}
		return recordStep(ctx, w, &before, &now)
	})
	switch {
	case refused != nil:
		return store.Subscription{}, refused
	case err != nil:
		return store.Subscription{}, err
	}
	return now, nil
}

// Subscription implements store.Subscriptions.
func (s *Store) Subscription(ctx context.Context, id int64) (store.Subscription, error) {
	return s.subscription(ctx, fmt.Sprintf("read subscription %d", id), " WHERE id = ?", id)
}

// SubscriptionByToken implements store.Subscriptions.
func (s *Store) SubscriptionByToken(ctx context.Context, token string) (store.Subscription, error) {
	return s.subscription(ctx, "find a subscription by its token", " WHERE token = ?", token)
}

func (s *Store) subscription(ctx context.Context, what, where string, arg any) (store.Subscription, error) {
	if s.lacks(schemaPush) {
		return store.Subscription{}, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	}
	found, err := dbfile.One(ctx, s.db, subscriptionFields, selectSubscription+where, arg)
	return found, s.db.Fail(what, err)
}

// Subscriptions implements store.Subscriptions.
func (s *Store) Subscriptions(ctx context.Context, sourceID int64, gone bool) ([]store.Subscription, error) {
	if s.lacks(schemaPush) {
		return nil, nil
	}
	where, args := " WHERE (?1 OR state <> 'gone')", []any{column.Flag(gone)}
	if sourceID != 0 {
		where, args = where+" AND source_id = ?2", append(args, sourceID)
	}
	found, err := dbfile.All(ctx, s.db, subscriptionFields, selectSubscription+where+" ORDER BY id", args...)
	return found, s.db.Fail("list subscriptions", err)
}

// TallySubscription implements store.Subscriptions.
func (s *Store) TallySubscription(ctx context.Context, id int64, t store.Tally) error {
	if t == (store.Tally{}) && s.db.Writable() {
		return nil
	}
	return s.db.Write(ctx, fmt.Sprintf("count for subscription %d", id), func(ctx context.Context,
		w *dbfile.Writer) error {
		_, err := w.Exec(ctx, `UPDATE subscription SET rejected_signature = rejected_signature + ?2,
			rejected_too_large = rejected_too_large + ?3, rejected_malformed = rejected_malformed + ?4,
			push_misses = push_misses + ?5, missed = missed + ?5 WHERE id = ?1`,
			id, t.RejectedSignature, t.RejectedTooLarge, t.RejectedMalformed, t.PushMisses)
		return err
	})
}

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
	_, err := w.Exec(ctx, `INSERT INTO subscription_event (id, subscription_id, set_id, kind, topic, hub, at, was,
		state, lease, reason) SELECT 1 + coalesce((SELECT id FROM subscription_event WHERE id >= ?1 AND id < ?2
			ORDER BY id DESC LIMIT 1), ?1), ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12
		FROM source c WHERE c.id = ?13 AND c.name IS NOT NULL`, // the row of a forgotten one would never be dropped
		from, to, now.ID, now.SetID, string(now.Kind), now.Topic, now.Hub, column.Instant(store.MicrosOf(time.Now())),
		string(was), string(now.State), lease, now.Reason, now.SourceID)
	return err
}

// SubscriptionEvents implements store.Chronicle.
func (s *Store) SubscriptionEvents(ctx context.Context, sourceID int64, limit int) ([]store.SubscriptionEvent, error) {
	if s.lacks(schemaChronicle) {
		return nil, nil
	}
	from, to := idRange(sourceID)
	events, err := dbfile.All(ctx, s.db, func(e *store.SubscriptionEvent) []any {
		e.SourceID = sourceID
		return []any{&e.ID, &e.SubscriptionID, &e.SetID, &e.Kind, &e.Topic, &e.Hub, column.InstantAt(&e.At), &e.From,
			&e.To, &e.Lease, &e.Reason}
	}, `SELECT id, subscription_id, set_id, kind, topic, hub, at, was, state, lease, reason
		FROM subscription_event WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT ?`, from, to, max(limit, 0))
	return events, s.db.Fail("read the history of subscriptions", err)
}
