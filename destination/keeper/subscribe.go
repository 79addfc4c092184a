package keeper

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

// subscribe asks the hub, and records what it answers. The request is recorded before it is sent, and nothing is locked
// while it is under way: the hub may verify before it answers (S-23, S-36).
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
	k.asked(recorded.ID)
	profile := ladder.Rung(recorded.Profile)
	form := websub.SubscribeForm{
		Mode: websub.ModeSubscribe, Callback: k.o.Callback(recorded.Token), Topic: recorded.Topic,
		Secret: recorded.Secret, Verify: profile.Verify,
	}
	if profile.Lease {
		form.Lease = recorded.Asked
	}
	heard := k.say(ctx, in.plan, recorded.Hub, form, &recorded)
	if heard.cutOff {
		return unasked, nil
	}
	return heard.health(), k.settle(ctx, heard, before, recorded)
}

// say sends a form to a hub.
func (k *Keeper) say(ctx context.Context, p Plan, hub string, form websub.SubscribeForm, s *store.Subscription) heard {
	began := k.uptime()
	a, err := k.o.Send(ctx, fetch.Message{
		Method: http.MethodPost, URL: hub, Policy: p.Policy, Header: http.Header{"Content-Type": {formType}},
		Body: form.Encode(), Repeat: redirectsMax, Timeout: sendTime,
	})
	h := hear(a, err, s)
	h.took = k.uptime() - began
	h.cutOff = err != nil && ctx.Err() != nil
	if k.o.Log.Enabled(ctx, slog.LevelDebug) {
		k.logger(s).Debug("asked a hub", "mode", string(form.Mode), "verdict", h.verdict.String(), "status", h.status, "reason", h.reason, "took", h.took)
	}
	return h
}

// settle records what the hub answered. It does so even if the daemon is to stop meanwhile.
func (k *Keeper) settle(ctx context.Context, h heard, before, recorded store.Subscription) error {
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
			// A verification came first. It is what counts, unless the hub says that it came to nothing (S-30).
			if !confirmed || h.verdict == accepted || h.verdict == unheard {
				return errKeep
			}
			recall(s, &before, m)
		default: // denied, cancelled or ended meanwhile
			return errKeep
		}
		switch h.verdict {
		case accepted:
			accept(s, h.status, before.State, m)
		case unheard, busy:
			fail(s, h.reason, h.retryAfter, m)
		case refused:
			spent = refuse(s, h.reason, true, m)
		case misdirected:
			spent = refuse(s, h.reason, false, m)
		}
		return nil
	})
	if err == nil && spent {
		_, err = k.advance(ctx, recorded.ID)
	}
	return err
}
