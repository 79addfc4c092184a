package subscribe

import (
	"context"
	"time"

	"resyncd/store"
)

type situation struct {
	sub       store.Subscription
	role      role
	successor store.Subscription // decides about a kept or replaced one
	plan      Plan
	planned   bool
	due       bool          // not changed since
	early     time.Duration // missing to the gap of F23
}

func (k *Keeper) situation(id int64) (situation, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.table.entries[id]
	if r == nil {
		return situation{}, false
	}
	now, uptime := k.now(), k.uptime()
	of := r.channel.source
	place, by := r.role()
	return situation{sub: r.sub, role: place, successor: *by, plan: of.plan, planned: of.planned,
		// By either clock: each may have been stopped or set (F15, F16).
		due: r.due.Known() && (r.due <= now || r.at <= uptime), early: max(r.sent+gap-uptime, 0)}, true
}

// step does what is due for one record. Its errors are the store's: the record is unchanged.
func (k *Keeper) step(ctx context.Context, id int64) (health, error) {
	in, ok := k.situation(id)
	if !ok {
		return unasked, nil
	}
	now := k.now()
	s := &in.sub
	switch {
	case toUnsubscribe(s) && in.due && remaining(s, now) == 0:
		return unasked, k.update(ctx, s, unsubscribed)
	case toUnsubscribe(s) && in.due:
		return k.unsubscribe(ctx, in)
	case !in.planned || toUnsubscribe(s) || s.State == store.SubOff:
		return unasked, nil
	case in.role == replaced:
		return unasked, k.retire(ctx, in)
	case s.Live() && remaining(s, now) == 0:
		return unasked, k.update(ctx, s, expire)
	case s.Live() && !s.Renew.Known():
		return unasked, k.update(ctx, s, cancelEnd)
	case in.role == kept && !s.Live():
		return unasked, nil
	}
	if in.role == head && exhausted(s) {
		if moved, err := k.advance(ctx, id); moved || err != nil {
			return unasked, err
		}
	}
	switch {
	case !in.due:
		return unasked, nil
	case assumable(s):
		return unasked, k.update(ctx, s, assume)
	case s.State == store.SubActive && k.old(&in):
		return unasked, k.rotate(ctx, id)
	}
	return k.subscribe(ctx, in)
}

// exhausted reports that another hub is worth a try (F32).
func exhausted(s *store.Subscription) bool {
	switch s.State {
	case store.SubDenied:
		return true
	case store.SubPending:
		return s.Attempts >= silentPatience
	case store.SubFailed, store.SubLapsed, store.SubRenewing:
		return s.Attempts >= patience(s.Live())
	}
	return false
}

// old reports that callback and secret are due for replacement (S-52), and that no older member is still being ended.
func (k *Keeper) old(in *situation) bool {
	if in.role != head || since(in.sub.Rotated, k.now()) < rotation {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.table.entries[in.sub.Replaces] == nil
}

// The decision was made on seen.
func unchanged(s, seen *store.Subscription) bool {
	return s.State == seen.State && s.Next == seen.Next && s.Requested == seen.Requested && s.Verified == seen.Verified
}

// postpone keeps the gap of F23, and reports whether that was needed.
func (in *situation) postpone(s *store.Subscription, m moment) bool {
	at := max(notTooSoon(s, m.now, m.now), plus(m.now, in.early))
	if at <= m.now {
		return false
	}
	s.Next = at
	return true
}

func (k *Keeper) update(ctx context.Context, seen *store.Subscription, fn func(*store.Subscription, moment)) error {
	m := k.moment()
	_, err := k.change(ctx, seen.ID, func(s *store.Subscription) error {
		if !unchanged(s, seen) {
			return errKeep
		}
		fn(s, m)
		return nil
	})
	return err
}

// retire ends a member that a verified successor replaces.
func (k *Keeper) retire(ctx context.Context, in situation) error {
	switch s := &in.sub; {
	case s.Live() && s.Renew.Known():
		return k.update(ctx, s, func(s *store.Subscription, m moment) { endAfterGrace(s, &in.successor, m) })
	case s.Live() && !in.due:
		return nil
	}
	return k.endMember(ctx, &in.sub)
}

// The stored time of a request misleads after the clock went back (F15, F23).
func (k *Keeper) noteRequest(id int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.table.entries[id]; r != nil {
		r.sent = k.uptime()
	}
}

func (k *Keeper) sourceName(id int64) string {
	p, _ := k.planOf(id)
	return p.Name
}
