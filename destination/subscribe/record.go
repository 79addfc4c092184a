package subscribe

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"time"

	"resyncd/destination/websub"
	"resyncd/store"
)

// This file holds the transitions of a record, as functions of the record alone: they run inside
// transactions, and in commands without a daemon.

// moment is the time at which a record changes, and the random numbers that jitter needs.
type moment struct {
	now    store.Micros
	random func() float64
}

func (k *Keeper) moment() moment { return moment{now: k.now(), random: k.o.random} }

// A request without a recorded answer is sent again: the process ended while it was under way.
const answerWait = time.Minute

// "verified and active" in PubSubHubbub 0.3.
const verifiedInline = 204

func plus(t store.Micros, d time.Duration) store.Micros { return t + store.Micros(d/time.Microsecond) }

func since(t, now store.Micros) time.Duration {
	if !t.Known() {
		return 1<<63 - 1
	}
	return time.Duration(now-t) * time.Microsecond
}

func remaining(s *store.Subscription, now store.Micros) time.Duration {
	if !s.Expires.Known() || s.Expires <= now {
		return 0
	}
	return time.Duration(s.Expires-now) * time.Microsecond
}

// newRecord is a subscription that no hub was asked for yet (S-21, S-22, S-24).
func newRecord(f channelKey, topic, hub string, secret bool, m moment) store.Subscription {
	s := store.Subscription{
		SourceID: f.source, SetID: f.set, Kind: f.kind, Topic: topic, Hub: hub,
		Token: base64.RawURLEncoding.EncodeToString(random32()), State: store.SubWanted,
		Requested: store.NoTime, Verified: store.NoTime, Renew: store.NoTime, Expires: store.NoTime,
		Rotated: m.now, Next: m.now, Ended: store.NoTime,
		SubscriptionCounts: store.SubscriptionCounts{LastDelivery: store.NoTime},
	}
	if secret {
		s.Secret = hex.EncodeToString(random32())
	}
	return s
}

func random32() []byte {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return b
}

// begin records that a subscribe request is on its way (S-23). A live subscription stays live, and a lapsed one is
// shown as lapsed until it is verified again (S-51, S-55).
func begin(s *store.Subscription, asked time.Duration, m moment) {
	wait := answerWait
	switch {
	case s.Live():
		s.State = store.SubRenewing
		wait = within(wait, remaining(s, m.now))
	case s.State == store.SubLapsed:
		s.Granted = 0
	default:
		s.State = store.SubRequesting
		s.Granted = 0
	}
	s.Asked = int64(asked / time.Second)
	s.Requested = m.now
	s.Attempts++
	s.Next = plus(m.now, wait)
}

// accept records a 2xx (S-30). Only the verification makes the subscription active. from is the state before begin.
func accept(s *store.Subscription, status int, from store.SubscriptionState, m moment) {
	s.Reason = ""
	if from == store.SubFailed {
		s.Attempts = 1 // failures say nothing about silence
	}
	if s.Attempts > 1 {
		s.Reason = "unverified: the hub accepted this request and those before, but never asked for a confirmation"
	}
	wait := silentWait(s.Attempts, m.random())
	switch {
	case !s.Live():
		if s.State == store.SubRequesting {
			s.State = store.SubPending
		}
		if status == verifiedInline {
			// A hub that sends no verification while the subscription is pending does without (S-30, Q-09).
			s.Granted, _ = websub.GrantedLease(websub.Verification{}, s.Asked)
		}
	case status == verifiedInline && !s.Verified.Known():
		assume(s, m) // the hub did without before
		return
	default:
		wait = within(wait, remaining(s, m.now))
	}
	s.Next = plus(m.now, wait)
}

// assumable reports that the hub answered 204 and then let its time to verify pass.
func assumable(s *store.Subscription) bool {
	return s.Granted > 0 && (s.State == store.SubPending || s.State == store.SubLapsed)
}

// assume counts the lease from the request (S-30).
func assume(s *store.Subscription, m moment) {
	seconds, _ := websub.GrantedLease(websub.Verification{}, s.Asked)
	grant(s, seconds, s.Requested, m)
	s.Verified = store.NoTime
	s.Reason = "the hub says that it verified us and did not: its lease is assumed"
}

// grant makes s active with a lease of that many seconds (S-50).
func grant(s *store.Subscription, seconds int64, from store.Micros, m moment) {
	s.State = store.SubActive
	s.Granted = seconds
	s.Verified = from
	s.Expires = plus(from, time.Duration(seconds)*time.Second)
	s.Renew = notTooSoon(s, plus(from, renewAfter(time.Duration(seconds)*time.Second, m.random())), m.now)
	s.Next = s.Renew
	s.Attempts = 0
	s.Profile = settled(s.Profile)
	s.Reason = ""
}

// notTooSoon keeps the gap of F23.
func notTooSoon(s *store.Subscription, t, now store.Micros) store.Micros {
	if !s.Requested.Known() || s.Requested > now { // the clock went back
		return t
	}
	return max(t, plus(s.Requested, gap))
}

// S-31, S-35, S-53, S-54
func applyVerification(s *store.Subscription, v websub.Verification, m moment) error {
	seconds, odd := websub.GrantedLease(v, s.Asked)
	// A verification without a request under way is a hub's check, or an attacker who learnt the callback and wants the
	// lease to end unnoticed (S-38). It can bring a renewal forward, never put it off.
	unasked := s.State == store.SubActive && s.Verified.Known() || s.State == store.SubDenied
	planned := s.Next
	if unasked && s.Granted > 0 && remaining(s, m.now) > 0 {
		// A lease that ends sooner is taken as a whole, so that its length and its times agree (S-50).
		expires := plus(m.now, time.Duration(seconds)*time.Second)
		sooner := expires < s.Expires
		if !sooner && s.State == store.SubActive {
			return errKeep
		}
		if sooner {
			s.Granted, s.Verified, s.Expires = seconds, m.now, expires
			s.Renew = min(s.Renew,
				notTooSoon(s, plus(m.now, renewAfter(time.Duration(seconds)*time.Second, m.random())), m.now))
		}
		if s.State == store.SubDenied {
			s.State, s.Reason = store.SubActive, ""
		}
		s.Next = min(planned, s.Renew)
		return nil
	}
	grant(s, seconds, m.now, m)
	s.Reason = odd
	if unasked {
		s.Next = min(planned, s.Next)
	}
	return nil
}

// fail records a missing answer, or one that may differ next time (S-30, F20). asked is Retry-After.
func fail(s *store.Subscription, reason string, asked time.Duration, m moment) {
	if s.State == store.SubRequesting {
		s.State = store.SubFailed
	}
	s.Reason = reason
	left := time.Duration(0)
	wait := retryWait(s.Attempts, m.random())
	if s.Live() {
		left = remaining(s, m.now)
		wait = within(wait, left)
	}
	s.Next = plus(m.now, max(longer(wait, asked, left), gap))
}

// refuse records an answer that will be the same next time. With climb, the next rung of the ladder is tried (T-05).
// Without it, and after the last rung, spent is true and the hub gets a long wait.
func refuse(s *store.Subscription, reason string, climb bool, m moment) (spent bool) {
	if s.State == store.SubRequesting {
		s.State = store.SubFailed
	}
	s.Reason = reason
	if climb {
		s.Profile, spent = nextRung(s.Profile)
	} else {
		s.Profile, spent = giveUp(s.Profile), true
	}
	wait := gap
	if spent {
		wait = refusedWait(climbs(s.Profile), m.random())
	}
	if s.Live() {
		wait = within(wait, remaining(s, m.now))
	}
	s.Next = plus(m.now, wait)
	return spent
}

// restoreLease undoes a verification that the hub did not mean: it answered with an error after we had confirmed (S-30,
//
func restoreLease(s *store.Subscription, before *store.Subscription, m moment) {
	s.Granted, s.Verified, s.Renew, s.Expires = before.Granted, before.Verified, before.Renew, before.Expires
	s.Attempts, s.Profile = before.Attempts+1, before.Profile
	switch {
	case remaining(s, m.now) > 0 && before.Live():
		s.State = store.SubRenewing
	case before.Live() || before.State == store.SubLapsed:
		s.State = store.SubLapsed
		s.Granted = 0
	default:
		s.State = store.SubRequesting // until fail or refuse
	}
}

// expire records that the lease is over (S-55).
func expire(s *store.Subscription, m moment) {
	s.State = store.SubLapsed
	s.Granted = 0
	if s.Reason == "" {
		s.Reason = "the lease ended before it was renewed"
	}
	if s.Attempts == 0 { // no hub was asked yet
		s.Next = notTooSoon(s, m.now, m.now)
	}
}

// A denial may come at any time and from anyone who knows the callback (S-40, F25). Secret, lease and counters stay,
// and the hub is asked again after a long wait (S-42).
func deny(s *store.Subscription, reason string, m moment) error {
	switch s.State {
	case store.SubGone, store.SubOff, store.SubUnsubscribing, store.SubDenied: // or repeated
		return errKeep
	case store.SubActive, store.SubWanted:
		s.Attempts = 1
	}
	next := plus(m.now, refusedWait(max(s.Attempts, 1), m.random()))
	if s.State == store.SubActive {
		next = min(next, s.Next) // repeated denials must not put the renewal off
	}
	s.State = store.SubDenied
	s.Reason = reason
	s.Next = next
	return nil
}

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
	wait := longer(unsubscribeWait(s.Attempts, m.random()), h.retryAfter, 0)
	if h.class == accepted {
		wait = silentWait(s.Attempts, m.random())
	}
	if s.State == store.SubUnsubscribing {
		s.Reason = h.reason
	}
	s.Next = plus(m.now, wait)
}

// endAfterGrace plans the end of a live subscription whose successor is verified (F31): both receive meanwhile.
func endAfterGrace(s *store.Subscription, successor *store.Subscription, m moment) {
	grace := moveGrace
	if s.Hub == successor.Hub && s.Topic == successor.Topic {
		grace = rotationGrace
	}
	s.Renew = store.NoTime
	s.Next = plus(m.now, grace)
}

// The successor was lost after all.
func cancelEnd(s *store.Subscription, m moment) {
	s.Renew = notTooSoon(s, m.now, m.now)
	s.Next = s.Renew
}
