package keeper

import (
	"resyncd/destination/ladder"
	"resyncd/store"
)

// end unsubscribes s where the hub may hold a lease (S-90), else s is gone at once: nothing is confirmed for a
// subscription that is gone (S-92).
func end(s *store.Subscription, m moment) {
	if remaining(s, m.now) == 0 {
		tombstone(s, m)
		return
	}
	s.State = store.SubUnsubscribing
	s.Attempts = 0
	s.Reason = ""
	s.Next = notTooSoon(s, m.now, m.now)
}

func tombstone(s *store.Subscription, m moment) {
	s.State = store.SubGone
	s.Ended = m.now
	s.Next, s.Renew = store.NoTime, store.NoTime
}

// cancel switches the channel off until the operator renews it. The record stays, because nothing else remembers that.
func cancel(s *store.Subscription, m moment) {
	s.State = store.SubOff
	s.Attempts = 0
	s.Reason = "cancelled by the operator"
	s.Replaces = 0
	if remaining(s, m.now) == 0 {
		unsubscribed(s, m)
		return
	}
	s.Next = notTooSoon(s, m.now, m.now)
}

// The hub holds no lease for us any more (S-91).
func unsubscribed(s *store.Subscription, m moment) {
	if s.State != store.SubOff {
		tombstone(s, m)
		return
	}
	s.Next, s.Renew, s.Expires = store.NoTime, store.NoTime, store.NoTime
	s.Granted = 0
}

func toUnsubscribe(s *store.Subscription) bool {
	return s.State == store.SubUnsubscribing || s.State == store.SubOff && s.Expires.Known()
}

func beginUnsubscribe(s *store.Subscription, m moment) {
	s.Requested = m.now
	s.Attempts++
	s.Next = plus(m.now, answerWait)
}

// The hub accepted the last attempt and is still to verify, or it failed.
func retryUnsubscribe(s *store.Subscription, h *hubAnswer, m moment) {
	wait := ladder.After(ladder.Unsubscribe(s.Attempts, m.random()), h.retryAfter, 0)
	if h.class == accepted {
		wait = ladder.Silent(s.Attempts, m.random())
	}
	if s.State == store.SubUnsubscribing {
		s.Reason = h.reason
	}
	s.Next = plus(m.now, wait)
}

// endAfterGrace plans the end of a live subscription whose successor is verified (F31): both receive meanwhile.
func endAfterGrace(s *store.Subscription, successor *store.Subscription, m moment) {
	grace := ladder.MoveGrace
	if s.Hub == successor.Hub && s.Topic == successor.Topic {
		grace = ladder.RotationGrace
	}
	s.Renew = store.NoTime
	s.Next = plus(m.now, grace)
}

// The successor was lost after all.
func cancelEnd(s *store.Subscription, m moment) {
	s.Renew = notTooSoon(s, m.now, m.now)
	s.Next = s.Renew
}
