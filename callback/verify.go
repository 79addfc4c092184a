package callback

import (
	"context"
	"errors"
	"net/http"
	"time"

	"resyncd/destination/gate"
	"resyncd/destination/websub"
	"resyncd/store"
)

// keeperTime bounds the keeper's work (S-36).
const keeperTime = 5 * time.Second

// verify answers a verification (S-31 to S-39, S-92) or a denial (S-40, S-41), and what it does not
// confirm like an unknown path.
func (c *Callback) verify(w http.ResponseWriter, r *http.Request, token string) {
	// The request of a hub that is gone stands.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), keeperTime)
	defer cancel()
	v, bad := websub.ParseVerification(r.URL.RawQuery)
	sub, err := c.subs.query(ctx, token) // the keeper may just have made it
	switch {
	case errors.Is(err, store.ErrNotFound):
		refuse(w, r, http.StatusNotFound)
		return
	case err != nil:
		c.failed(w, r, "a verification", store.Subscription{}, err)
		return
	case bad != nil || v.Topic != sub.Topic:
		refuse(w, r, http.StatusNotFound)
		return
	}
	gate.Received(r.Context())
	var yes bool
	switch v.Mode {
	case websub.ModeDenied:
		if sub.State != store.SubGone {
			err = c.o.Keeper.Denied(ctx, sub, v.Reason)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			c.failed(w, r, "a denial", sub, err)
			return
		}
		write(w, http.StatusOK)
		return
	case websub.ModeSubscribe, websub.ModeUnsubscribe:
		switch {
		case !websub.ValidChallenge(v.Challenge): // S-34
		case sub.State == store.SubGone:
			yes = v.Mode == websub.ModeUnsubscribe // the hub lost our first answer
		default:
			yes, err = c.o.Keeper.Verify(ctx, sub, v)
		}
	}
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		c.failed(w, r, "a verification", sub, err)
	case err != nil || !yes:
		refuse(w, r, http.StatusNotFound)
	default:
		text(w, http.StatusOK, v.Challenge)
	}
}

func (c *Callback) failed(w http.ResponseWriter, r *http.Request, what string, sub store.Subscription, err error) {
	c.tallies.failure("cannot answer "+what+": hubs are told to come again", sub, err)
	busy(w, r, whileBusy)
}
