package keeper

import (
	"resyncd/destination/ladder"
	"resyncd/store"
)

// end begins the end of s: it is unsubscribed where the hub may hold a lease (S-90), else it is gone at once. A hub that
// holds none cannot come to one, because we confirm nothing for what is gone (S-92).
func end(s *store.Subscription, m moment) {
	if remaining(s, m.now) == 0 {
		bury(s, m)
		return
	}
	s.State = store.SubUnsubscribing
	s.Attempts = 0
	s.Reason = ""
	s.Next = notTooSoon(s, m.now, m.now)
}

// bury leaves the tombstone (S-92).
func bury(s *store.Subscription, m moment) {
	s.State = store.SubGone
	s.Ended = m.now
	s.Next, s.Renew = store.NoTime, store.NoTime
}

// cancel switches the channel off, until renewed by the operator. The record is what remembers that, so it stays; its
// lease, if there may be one, is unsubscribed.
func cancel(s *store.Subscription, m moment) {
	s.State = store.SubOff
	s.Attempts = 0
	s.Reason = "cancelled by the operator"
	s.Replaces = 0
	if remaining(s, m.now) == 0 {
		parted(s, m)
		return
	}
	s.Next = notTooSoon(s, m.now, m.now)
}

// parted records that the hub holds nothing for us any more (S-91).
func parted(s *store.Subscription, m moment) {
	if s.State != store.SubOff {
		bury(s, m)
		return
	}
	s.Next, s.Renew, s.Expires = store.NoTime, store.NoTime, store.NoTime
	s.Granted = 0
}

// leaving reports whether s is to be unsubscribed.
func leaving(s *store.Subscription) bool {
	return s.State == store.SubUnsubscribing || s.State == store.SubOff && s.Expires.Known()
}

// beginParting records that an unsubscribe request is on its way.
func beginParting(s *store.Subscription, m moment) {
	s.Requested = m.now
	s.Attempts++
	s.Next = plus(m.now, answerWait)
}

// waitParting plans the next attempt: the hub accepted this one and is to verify, or it failed.
func waitParting(s *store.Subscription, h *heard, m moment) {
	wait := ladder.After(ladder.Parting(s.Attempts, m.dice()), h.retryAfter, 0)
	if h.verdict == accepted {
		wait = ladder.Silent(s.Attempts, m.dice())
	}
	if s.State == store.SubUnsubscribing {
		s.Reason = h.reason
	}
	s.Next = plus(m.now, wait)
}

// retire plans the end of a live subscription whose successor is verified, after a grace (F31): until then both receive.
func retire(s *store.Subscription, successor *store.Subscription, m moment) {
	grace := ladder.MoveGrace
	if s.Hub == successor.Hub && s.Topic == successor.Topic {
		grace = ladder.RotationGrace
	}
	s.Renew = store.NoTime
	s.Next = plus(m.now, grace)
}

// revive takes retire back, because the successor was lost after all.
func revive(s *store.Subscription, m moment) {
	s.Renew = notTooSoon(s, m.now, m.now)
	s.Next = s.Renew
}
