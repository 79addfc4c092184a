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
	sub, err := c.subs.query(ctx, token) // the keeper may just have made it
	challenge := ""
	if err == nil {
		challenge, err = c.confirm(ctx, r.URL.RawQuery, sub)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		refuse(w, r, http.StatusNotFound)
	case err != nil:
		c.tallies.failure("cannot answer a verification or denial: hubs are told to come again", sub, err)
		busy(w, r, whileBusy)
	case challenge == "":
		write(w, http.StatusOK)
	default:
		text(w, http.StatusOK, challenge)
	}
}

// confirm is the challenge of a request that is confirmed, "" for a denial that is recorded.
func (c *Callback) confirm(ctx context.Context, query string, sub store.Subscription) (string, error) {
	v, err := websub.ParseVerification(query)
	if err != nil || v.Topic != sub.Topic {
		return "", store.ErrNotFound
	}
	gate.Received(ctx)
	gone := sub.State == store.SubGone
	if v.Mode == websub.ModeDenied {
		if !gone {
			err = c.o.Keeper.Denied(ctx, sub, v.Reason)
		}
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return "", err
	}
	yes := gone && v.Mode == websub.ModeUnsubscribe // the hub lost our first answer
	if !websub.ValidChallenge(v.Challenge) {        // S-34
		return "", store.ErrNotFound
	}
	if !gone {
		yes, err = c.o.Keeper.Verify(ctx, sub, v)
	}
	if err == nil && !yes {
		err = store.ErrNotFound
	}
	return v.Challenge, err
}
