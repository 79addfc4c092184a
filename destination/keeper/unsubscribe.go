package keeper

import (
	"context"
	"errors"

	"resyncd/destination/ladder"
	"resyncd/destination/websub"
	"resyncd/store"
)

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
	h := k.sendForm(ctx, in.plan, recorded.Hub, websub.SubscribeForm{
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
