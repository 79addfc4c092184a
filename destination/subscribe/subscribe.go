package subscribe

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/ladder"
	"resyncd/destination/websub"
	"resyncd/store"
)

const (
	sendTime     = 30 * time.Second
	redirectsMax = 5 // S-30
	formType     = "application/x-www-form-urlencoded"
)

// subscribe records the request before it is sent, and no lock is held while it is under way: the hub may verify before
// it answers (S-23, S-36).
func (k *Keeper) subscribe(ctx context.Context, in situation) (health, error) {
	m := k.moment()
	var before store.Subscription
	recorded, err := k.change(ctx, in.sub.ID, func(s *store.Subscription) error {
		before = store.Subscription{}
		switch {
		case !unchanged(s, &in.sub):
			return errMeanwhile
		case in.postpone(s, m):
			return nil
		}
		before = *s
		begin(s, in.plan.Lease, m)
		return nil
	})
	switch {
	case errors.Is(err, errMeanwhile):
		return unasked, nil
	case err != nil || before.ID == 0:
		return unasked, err
	}
	k.warn(&recorded)
	k.noteRequest(recorded.ID)
	profile := ladder.Rung(recorded.Profile)
	form := websub.HubForm{
		Mode: websub.ModeSubscribe, Callback: k.o.Callback(recorded.Token), Topic: recorded.Topic,
		Secret: recorded.Secret, Verify: profile.Verify,
	}
	if profile.Lease {
		form.Lease = recorded.Asked
	}
	answer := k.sendForm(ctx, in.plan, recorded.Hub, form, &recorded)
	if answer.cutOff {
		return unasked, nil
	}
	return answer.health(), k.recordAnswer(ctx, answer, before, recorded)
}

func (k *Keeper) sendForm(ctx context.Context, p Plan, hub string, form websub.HubForm,
	s *store.Subscription) hubAnswer {
	began := k.uptime()
	a, err := k.o.Send(ctx, fetch.Message{
		Method: http.MethodPost, URL: hub, Policy: p.Policy, Header: http.Header{"Content-Type": {formType}},
		Body: form.Encode(), Repeat: redirectsMax, Timeout: sendTime,
	})
	h := readAnswer(a, err, s)
	h.took = k.uptime() - began
	h.cutOff = err != nil && ctx.Err() != nil
	if k.o.Log.Enabled(ctx, slog.LevelDebug) {
		k.logger(s).Debug("asked a hub", "mode", string(form.Mode), "verdict", h.class.String(), "status", h.status,
			"reason", h.reason, "took", h.took)
	}
	return h
}

// recordAnswer works even if the daemon is told to stop meanwhile.
func (k *Keeper) recordAnswer(ctx context.Context, h hubAnswer, before, recorded store.Subscription) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	m := k.moment()
	spent := false
	_, err := k.change(ctx, recorded.ID, func(s *store.Subscription) error {
		spent = false
		confirmed := s.State == store.SubActive && s.Verified != before.Verified
		switch s.State {
		case store.SubRequesting, store.SubRenewing, store.SubLapsed:
		case store.SubActive:
			// The verification came before the answer. It counts, unless the answer is an error (S-30).
			if !confirmed || h.class == accepted || h.class == noAnswer {
				return errKeep
			}
			restoreLease(s, &before, m)
		default: // ended meanwhile
			return errKeep
		}
		switch h.class {
		case accepted:
			accept(s, h.status, before.State, m)
		case noAnswer, busy:
			fail(s, h.reason, h.retryAfter, m)
		case refused:
			spent = refuse(s, h.reason, true, m)
		case notAllowed:
			spent = refuse(s, h.reason, false, m)
		}
		if h.class != accepted {
			s.Cause = h.cause
		}
		return nil
	})
	if err == nil && spent {
		_, err = k.advance(ctx, recorded.ID)
	}
	return err
}

// unsubscribe asks the hub to end the lease (S-90). It is over when the hub verifies, answers 204 or knows of no
// subscription, or when the lease has run out (S-91).
func (k *Keeper) unsubscribe(ctx context.Context, in situation) (health, error) {
	m := k.moment()
	sent := false
	recorded, err := k.change(ctx, in.sub.ID, func(s *store.Subscription) error {
		sent = false
		switch {
		case !unchanged(s, &in.sub) || !toUnsubscribe(s):
			return errMeanwhile
		case remaining(s, m.now) == 0:
			unsubscribed(s, m)
			return nil
		case in.postpone(s, m):
			return nil
		}
		sent = true
		beginUnsubscribe(s, m)
		return nil
	})
	switch {
	case errors.Is(err, errMeanwhile):
		return unasked, nil
	case err != nil || !sent:
		return unasked, err
	}
	k.noteRequest(recorded.ID)
	h := k.sendForm(ctx, in.plan, recorded.Hub, websub.HubForm{
		Mode: websub.ModeUnsubscribe, Callback: k.o.Callback(recorded.Token), Topic: recorded.Topic,
		Verify: ladder.Rung(recorded.Profile).Verify,
	}, &recorded)
	if h.cutOff {
		return unasked, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	m = k.moment()
	_, err = k.change(ctx, recorded.ID, func(s *store.Subscription) error {
		switch {
		case !toUnsubscribe(s): // confirmed meanwhile
			return errKeep
		case h.class == refused, h.class == accepted && h.status == verifiedInline:
			unsubscribed(s, m)
		default:
			retryUnsubscribe(s, &h, m)
		}
		return nil
	})
	return h.health(), err
}
