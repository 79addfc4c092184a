package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	lib "modernc.org/sqlite/lib"

	"resyncd/store"
)

const (
	// callerColumns are written by callers, countColumns by the store.
	callerColumns = `source_id, set_id, kind, topic, hub, token, secret, state, replaces, asked, granted, requested, verified,
		renew, expires, rotated, next, attempts, profile, reason, ended`
	countColumns = `last_delivery, delivered, duplicates, rejected_signature, rejected_too_large, rejected_malformed,
		push_misses, missed`
	selectSubscription = "SELECT id, " + callerColumns + ", " + countColumns + " FROM subscription"
)

func scanSubscription(row rowScanner) (s store.Subscription, err error) {
	err = row.Scan(&s.ID, &s.SourceID, &s.SetID, &s.Kind, &s.Topic, &s.Hub, &s.Token, &s.Secret, &s.State, &s.Replaces,
		&s.Asked, &s.Granted, (*micros)(&s.Requested), (*micros)(&s.Verified), (*micros)(&s.Renew),
		(*micros)(&s.Expires),
		(*micros)(&s.Rotated), (*micros)(&s.Next), &s.Attempts, &s.Profile, &s.Reason, (*micros)(&s.Ended),
		(*micros)(&s.LastDelivery), &s.Delivered, &s.Duplicates, &s.RejectedSignature, &s.RejectedTooLarge,
		&s.RejectedMalformed, &s.PushMisses, &s.Missed)
	s.Reason, s.Cause = store.CutCause(s.Reason)
	return s, err
}

// subscriptionArgs are the values of callerColumns.
func subscriptionArgs(s *store.Subscription) []any {
	return []any{
		s.SourceID, s.SetID, string(s.Kind), s.Topic, s.Hub, s.Token, s.Secret, string(s.State), s.Replaces, s.Asked,
		s.Granted,
		ms(s.Requested), ms(s.Verified), ms(s.Renew), ms(s.Expires), ms(s.Rotated), ms(s.Next), s.Attempts, s.Profile,
		store.WithCause(s.Reason, s.Cause), ms(s.Ended),
	}
}

// AddSubscription implements store.Subscriptions.
func (s *Store) AddSubscription(ctx context.Context, sub *store.Subscription) error {
	var id int64
	err := s.write(ctx, "record a subscription", func(ctx context.Context, w *writer) error {
		if sub.Token == "" {
			return errors.New("it has no callback token")
		}
		if known, err := knownSource(ctx, w, sub.SourceID); err != nil {
			return err
		} else if !known { // it would never end
			return fmt.Errorf("source %d: %w", sub.SourceID, store.ErrNotFound)
		}
		values := subscriptionArgs(sub)
		err := w.get(ctx, "INSERT INTO subscription ("+callerColumns+") VALUES ("+placeholders(len(values))+
			") RETURNING id", values, &id)
		if err != nil {
			return tokenTaken(err)
		}
		now := *sub
		now.ID = id
		return recordStep(ctx, w, nil, &now)
	})
	if err != nil {
		return err
	}
	sub.ID = id
	sub.LastDelivery, sub.Delivered, sub.Duplicates = store.NoTime, 0, 0
	sub.RejectedSignature, sub.RejectedTooLarge, sub.RejectedMalformed, sub.PushMisses, sub.Missed = 0, 0, 0, 0, 0
	return nil
}

// tokenTaken names the only constraint that a subscription can violate.
func tokenTaken(err error) error {
	if code(err) == lib.SQLITE_CONSTRAINT_UNIQUE && strings.Contains(err.Error(), "subscription.token") {
		return errors.New("its callback token is another subscription's")
	}
	return err
}

// knownSource reports whether a Source exists and is not forgotten.
func knownSource(ctx context.Context, w *writer, id int64) (known bool, err error) {
	err = w.get(ctx, "SELECT EXISTS (SELECT 1 FROM source WHERE id = ? AND name IS NOT NULL)", []any{id}, &known)
	return known, err
}

// ChangeSubscription implements store.Subscriptions.
func (s *Store) ChangeSubscription(ctx context.Context, id int64,
	fn func(*store.Subscription) error) (store.Subscription, error) {
	var now store.Subscription
	var refused error // by fn
	err := s.write(ctx, fmt.Sprintf("change subscription %d", id), func(ctx context.Context, w *writer) error {
		rows, err := w.query(ctx, selectSubscription+" WHERE id = ?", id)
		if err != nil {
			return err
		}
		before, err := single(collect(rows, scanSubscription))
		if err != nil {
			return err
		}
		now = before
		if refused = fn(&now); refused != nil {
			return refused
		}
		now.ID = before.ID
		keepCounters(&now, &before)
		if now == before {
			return nil
		}
		_, err = w.exec(ctx, `UPDATE subscription SET source_id = ?, set_id = ?, kind = ?, topic = ?, hub = ?, token = ?,
			secret = ?, state = ?, replaces = ?, asked = ?, granted = ?, requested = ?, verified = ?, renew = ?, expires = ?,
			rotated = ?, next = ?, attempts = ?, profile = ?, reason = ?, ended = ? WHERE id = ?`, append(subscriptionArgs(&now), id)...)
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

// keepCounters undoes changes of the counters.
func keepCounters(s, from *store.Subscription) {
	s.LastDelivery, s.Delivered, s.Duplicates = from.LastDelivery, from.Delivered, from.Duplicates
	s.RejectedSignature, s.RejectedTooLarge, s.RejectedMalformed = from.RejectedSignature, from.RejectedTooLarge, from.RejectedMalformed
	s.PushMisses, s.Missed = from.PushMisses, from.Missed
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
	found, err := s.subscriptions(ctx, where, arg)
	sub, err := single(found, err)
	return sub, s.fail(what, err)
}

// Subscriptions implements store.Subscriptions.
func (s *Store) Subscriptions(ctx context.Context, sourceID int64, gone bool) ([]store.Subscription, error) {
	const what = "list subscriptions"
	where, args := " WHERE (?1 OR state <> 'gone')", []any{flag(gone)}
	if sourceID != 0 {
		where, args = where+" AND source_id = ?2", append(args, sourceID)
	}
	found, err := s.subscriptions(ctx, where+" ORDER BY id", args...)
	return found, s.fail(what, err)
}

func (s *Store) subscriptions(ctx context.Context, where string, args ...any) ([]store.Subscription, error) {
	if s.lacks(schemaPush) {
		return nil, nil
	}
	rows, err := s.r.query(ctx, selectSubscription+where, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, scanSubscription)
}

// TallySubscription implements store.Subscriptions.
func (s *Store) TallySubscription(ctx context.Context, id int64, t store.Tally) error {
	if t == (store.Tally{}) && s.w != nil {
		return nil
	}
	return s.write(ctx, fmt.Sprintf("count for subscription %d", id), func(ctx context.Context, w *writer) error {
		_, err := w.exec(ctx, `UPDATE subscription SET rejected_signature = rejected_signature + ?2,
			rejected_too_large = rejected_too_large + ?3, rejected_malformed = rejected_malformed + ?4,
			push_misses = push_misses + ?5, missed = missed + ?5 WHERE id = ?1`,
			id, t.RejectedSignature, t.RejectedTooLarge, t.RejectedMalformed, t.PushMisses)
		return err
	})
}
