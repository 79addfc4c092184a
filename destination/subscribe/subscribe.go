package subscribe

import (
	"context"
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

func (k *Keeper) subscribe(ctx context.Context, in situation) (health, error) {
	var before store.Subscription
	recorded, answer, err := k.ask(ctx, in, websub.ModeSubscribe, func(s *store.Subscription, m moment) {
		before = *s
		begin(s, in.plan.Lease, m)
	})
	if err != nil || answer == nil {
		return unasked, err
	}
	return answer.health(), k.recordAnswer(ctx, answer, before, recorded)
}

// unsubscribe asks the hub to end the lease (S-90). It is over when the hub verifies, answers 204 or knows of no
// subscription, or when the lease has run out (S-91).
func (k *Keeper) unsubscribe(ctx context.Context, in situation) (health, error) {
	recorded, h, err := k.ask(ctx, in, websub.ModeUnsubscribe, beginUnsubscribe)
	if err != nil || h == nil {
		return unasked, err
	}
	ctx, cancel := settling(ctx)
	defer cancel()
	m := k.moment()
	_, err = k.change(ctx, recorded.ID, func(s *store.Subscription) error {
		switch {
		case !toUnsubscribe(s): // confirmed meanwhile
			return errKeep
		case h.class == refused, h.class == accepted && h.status == verifiedInline:
			unsubscribed(s, m)
		default:
			retryUnsubscribe(s, h, m)
		}
		return nil
	})
	return h.health(), err
}

// ask records a request with begin before it is sent, and no lock is held while it is under way: the hub may verify
// before it answers (S-23, S-36). There is no answer where nothing was sent, or this process stopped the request.
func (k *Keeper) ask(ctx context.Context, in situation, mode websub.Mode,
	begin func(*store.Subscription, moment)) (store.Subscription, *hubAnswer, error) {
	m := k.moment()
	send := false
	recorded, err := k.change(ctx, in.sub.ID, func(s *store.Subscription) error {
		send = false
		switch {
		case !unchanged(s, &in.sub):
			return errMeanwhile
		case in.postpone(s, m):
			return nil
		}
		send = true
		begin(s, m)
		return nil
	})
	if err != nil || !send {
		return recorded, nil, ignore(err, errMeanwhile)
	}
	profile := ladder.Rung(recorded.Profile)
	form := websub.SubscribeForm{
		Mode: mode, Callback: k.o.Callback(recorded.Token), Topic: recorded.Topic, Verify: profile.Verify,
	}
	if mode == websub.ModeSubscribe {
		k.warn(&recorded)
		form.Secret = recorded.Secret
		if profile.Lease {
			form.Lease = recorded.Asked
		}
	}
	k.noteRequest(recorded.ID)
	answer := k.sendForm(ctx, in.plan, recorded.Hub, form, &recorded)
	if ctx.Err() != nil && answer.class == noAnswer {
		return recorded, nil, nil
	}
	return recorded, &answer, nil
}

func (k *Keeper) sendForm(ctx context.Context, p Plan, hub string, form websub.SubscribeForm,
	s *store.Subscription) hubAnswer {
	began := k.uptime()
	a, err := k.o.Send(ctx, fetch.Message{
		Method: http.MethodPost, URL: hub, Policy: p.Policy, Header: http.Header{"Content-Type": {formType}},
		Body: form.Encode(), Repeat: redirectsMax, Timeout: sendTime,
	})
	h := readAnswer(a, err, s)
	h.took = k.uptime() - began
	if k.o.Log.Enabled(ctx, slog.LevelDebug) {
		k.logger(s).Debug("asked a hub", "mode", string(form.Mode), "verdict", h.class.String(), "status", h.status,
			"reason", h.reason, "took", h.took)
	}
	return h
}

// settling is a context to record an answer in, even if the daemon is told to stop meanwhile.
func settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), settleTime)
}

func (k *Keeper) recordAnswer(ctx context.Context, h *hubAnswer, before, recorded store.Subscription) error {
	ctx, cancel := settling(ctx)
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
