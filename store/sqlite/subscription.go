package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	added := *sub
	err := s.db.Write(ctx, "record a subscription", func(tx *dbfile.Session) {
		switch {
		case sub.Token == "":
			tx.Fail(errors.New("it has no callback token"))
		case !knownSource(tx, sub.SourceID): // it would never end
			tx.Fail(fmt.Errorf("source %d: %w", sub.SourceID, store.ErrNotFound))
		}
		added.ID = tx.Insert(insertInto("subscription", callerColumns), subscriptionFields(sub)[:callerFields]...)
		recordStep(tx, nil, &added)
	})
	if err != nil {
		return err
	}
	sub.ID = added.ID
	sub.SubscriptionCounts = store.SubscriptionCounts{LastDelivery: store.NoTime}
	return nil
}

// knownSource reports whether a Source exists and is not forgotten.
func knownSource(tx *dbfile.Session, id int64) bool {
	return tx.Has("SELECT id FROM source WHERE id = ? AND name IS NOT NULL", id)
}

// ChangeSubscription implements store.Subscriptions.
func (s *Store) ChangeSubscription(ctx context.Context, id int64,
	fn func(*store.Subscription) error) (store.Subscription, error) {
	var now store.Subscription
	var refused error // by fn
	err := s.db.Write(ctx, fmt.Sprintf("change subscription %d", id), func(tx *dbfile.Session) {
		before := dbfile.One(tx, subscriptionFields, selectSubscription+" WHERE id = ?", id)
		if tx.Failed() {
			return
		}
		now = before
		refused = fn(&now)
		tx.Fail(refused)
		now.ID, now.SubscriptionCounts = before.ID, before.SubscriptionCounts
		if now == before {
			return
		}
		tx.Exec(update("subscription", callerColumns)+"id = ?", append(subscriptionFields(&now)[:callerFields], id)...)
		recordStep(tx, &before, &now)
	})
	if err = cmp.Or(refused, err); err != nil {
		return store.Subscription{}, err
	}
	return now, nil
}

// Subscription implements store.Subscriptions.
func (s *Store) Subscription(ctx context.Context, id int64) (store.Subscription, error) {
	r := s.db.Read(ctx, fmt.Sprintf("read subscription %d", id))
	return dbfile.One(r, subscriptionFields, selectSubscription+" WHERE id = ?", id), r.Err()
}

// SubscriptionByToken implements store.Subscriptions.
func (s *Store) SubscriptionByToken(ctx context.Context, token string) (store.Subscription, error) {
	r := s.db.Read(ctx, "find a subscription by its token")
	return dbfile.One(r, subscriptionFields, selectSubscription+" WHERE token = ?", token), r.Err()
}

// Subscriptions implements store.Subscriptions.
func (s *Store) Subscriptions(ctx context.Context, sourceID int64, gone bool) ([]store.Subscription, error) {
	r := s.db.Read(ctx, "list subscriptions")
	where, args := " WHERE (?1 OR state <> 'gone')", []any{column.Flag(gone)}
	if sourceID != 0 {
		where, args = where+" AND source_id = ?2", append(args, sourceID)
	}
	return dbfile.All(r, subscriptionFields, selectSubscription+where+" ORDER BY id", args...), r.Err()
}

// TallySubscription implements store.Subscriptions.
func (s *Store) TallySubscription(ctx context.Context, id int64, t store.Tally) error {
	if t == (store.Tally{}) && s.db.Writable() {
		return nil
	}
	return s.db.Write(ctx, fmt.Sprintf("count for subscription %d", id), func(tx *dbfile.Session) {
		tx.Exec(`UPDATE subscription SET rejected_signature = rejected_signature + ?2,
			rejected_too_large = rejected_too_large + ?3, rejected_malformed = rejected_malformed + ?4,
			push_misses = push_misses + ?5, missed = missed + ?5 WHERE id = ?1`,
			id, t.RejectedSignature, t.RejectedTooLarge, t.RejectedMalformed, t.PushMisses)
	})
}

// recordStep keeps a step in the life of a subscription, in the transaction that makes it: another
// state, or a lease that was verified anew. before is nil for a new one.
func recordStep(tx *dbfile.Session, before, now *store.Subscription) {
	was, verified := store.SubscriptionState(""), now.Verified.Known()
	if before != nil {
		if before.State == now.State && before.Verified == now.Verified {
			return
		}
		was, verified = before.State, verified && before.Verified != now.Verified
	}
	var lease int64
	if verified {
		lease = now.Granted
	}
	from, to := idRange(now.SourceID)
	tx.Exec(`INSERT INTO subscription_event (id, subscription_id, set_id, kind, topic, hub, at, was,
		state, lease, reason) SELECT 1 + coalesce((SELECT id FROM subscription_event WHERE id >= ?1 AND id < ?2
			ORDER BY id DESC LIMIT 1), ?1), ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12
		FROM source c WHERE c.id = ?13 AND c.name IS NOT NULL`, // the row of a forgotten one would never be dropped
		from, to, now.ID, now.SetID, string(now.Kind), now.Topic, now.Hub, column.Instant(store.MicrosOf(time.Now())),
		string(was), string(now.State), lease, now.Reason, now.SourceID)
}

// SubscriptionEvents implements store.Chronicle.
func (s *Store) SubscriptionEvents(ctx context.Context, sourceID int64, limit int) ([]store.SubscriptionEvent, error) {
	r := s.db.Read(ctx, "read the history of subscriptions")
	from, to := idRange(sourceID)
	return dbfile.All(r, func(e *store.SubscriptionEvent) []any {
		e.SourceID = sourceID
		return []any{&e.ID, &e.SubscriptionID, &e.SetID, &e.Kind, &e.Topic, &e.Hub, column.InstantAt(&e.At), &e.From,
			&e.To, &e.Lease, &e.Reason}
	}, `SELECT id, subscription_id, set_id, kind, topic, hub, at, was, state, lease, reason
		FROM subscription_event WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT ?`, from, to, max(limit, 0)), r.Err()
}

const requestColumns = "id, source, command, args, state, created, beat, progress, exit_code, problem"

func requestFields(r *store.Request) []any {
	return []any{&r.ID, &r.Source, &r.Command, &r.Args, &r.State, column.InstantAt(&r.Created),
		column.InstantAt(&r.Beat), &r.Progress, &r.ExitCode, &r.Problem}
}

// AddRequest implements store.Requests.
func (s *Store) AddRequest(ctx context.Context, r *store.Request) error {
	created := r.Created
	if created <= 0 { // not set; Tidy needs it
		created = store.MicrosOf(time.Now())
	}
	var id int64
	err := s.db.WriteBestEffort(ctx, "record a request", func(tx *dbfile.Session) {
		id = tx.Insert("INSERT INTO request (source, command, args, state, created) VALUES (?, ?, ?, ?, ?)",
			r.Source, r.Command, r.Args, string(store.RequestWaiting), int64(created))
	})
	if err != nil {
		return err
	}
	*r = store.Request{ID: id, Source: r.Source, Command: r.Command, Args: r.Args, State: store.RequestWaiting,
		Created: created, Beat: store.NoTime}
	return nil
}

// TakeRequests implements store.Requests. It is called several times a second, so without a request
// it only reads, in an index of the waiting ones.
func (s *Store) TakeRequests(ctx context.Context, now store.Micros) ([]store.Request, error) {
	const what = "take requests"
	if r := s.db.Read(ctx, what); s.db.Writable() && !r.Has("SELECT id FROM request WHERE state = 'waiting' LIMIT 1") {
		return nil, r.Err()
	}
	var taken []store.Request
	err := s.db.Write(ctx, what, func(tx *dbfile.Session) {
		taken = dbfile.All(tx, requestFields,
			"UPDATE request SET state = 'taken', beat = ? WHERE state = 'waiting' RETURNING "+requestColumns,
			column.Instant(now))
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(taken, func(a, b store.Request) int { return cmp.Compare(a.ID, b.ID) })
	return taken, nil
}

// AnswerRequest implements store.Requests.
func (s *Store) AnswerRequest(ctx context.Context, id int64, lines []string, progress []byte, beat store.Micros) error {
	return s.db.Write(ctx, fmt.Sprintf("answer request %d", id), func(tx *dbfile.Session) {
		tx.Change("UPDATE request SET progress = coalesce(?, progress), beat = ? WHERE id = ?", progress,
			column.Instant(beat), id)
		for _, line := range lines {
			tx.Exec(`INSERT INTO request_line (request_id, n, line) SELECT ?1, coalesce(max(n), -1) + 1, ?2
				FROM request_line WHERE request_id = ?1`, id, line)
		}
	})
}

// EndRequest implements store.Requests.
func (s *Store) EndRequest(ctx context.Context, id int64, exitCode int, problem string) error {
	return s.db.Write(ctx, fmt.Sprintf("end request %d", id), func(tx *dbfile.Session) {
		tx.Change("UPDATE request SET state = 'done', exit_code = ?, problem = ? WHERE id = ?", exitCode, problem, id)
	})
}

// Request implements store.Requests.
func (s *Store) Request(ctx context.Context, id int64, from int) (store.Request, error) {
	r := s.db.Read(ctx, fmt.Sprintf("read request %d", id))
	found := dbfile.One(r, requestFields, "SELECT "+requestColumns+" FROM request WHERE id = ?", id)
	// The lines after the state: a finished request has all of them.
	found.Output = dbfile.All(r, textField, "SELECT line FROM request_line WHERE request_id = ? AND n >= ? ORDER BY n",
		id, from)
	return found, r.Err()
}

// DropRequest implements store.Requests.
func (s *Store) DropRequest(ctx context.Context, id int64) (taken bool, err error) {
	err = s.db.WriteBestEffort(ctx, fmt.Sprintf("take request %d back", id), func(tx *dbfile.Session) {
		tx.Exec("DELETE FROM request WHERE id = ? AND state = 'waiting'", id)
		taken = tx.Has("SELECT id FROM request WHERE id = ?", id)
	})
	return taken, err
}
