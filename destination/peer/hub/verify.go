package hub

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/websub"
)

const verifyTimeout = 10 * time.Second

// verifyAgain are the waits before a request is verified once more, where the callback could not be reached (H-05).
var verifyAgain = [...]time.Duration{time.Second, 4 * time.Second, 20 * time.Second}

// notServed is why topics outside of Options.TopicPrefixes are denied.
const notServed = "this hub does not serve the topic"

// Outcomes of a verification, fit for the answer to a subscriber of PubSubHubbub 0.3.
var (
	errUnconfirmed = errors.New("the callback did not confirm")
	errUnreachable = errors.New("the callback could not be reached")
	errTooMany     = errors.New("too many requests wait to be verified: try again")
	errUnrecorded  = errors.New("the hub cannot write its state: try again")

	errCrowded      = errors.New("this hub has all the subscriptions that it can bear: try again later")
	errCrowdedTopic = errors.New("hub.topic has all the subscriptions that this hub bears for one: try again later")
	errCrowdedHost  = errors.New("hub.callback: its host has all the subscriptions " +
		"that this hub bears for one: try again later")
)

func isCrowded(err error) bool {
	return errors.Is(err, errCrowded) || errors.Is(err, errCrowdedTopic) || errors.Is(err, errCrowdedHost)
}

// enqueue has a request verified, after those of the same pair that came before.
func (h *Hub) enqueue(q *request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.add(q)
}

// add is enqueue for callers that hold h.mu.
func (h *Hub) add(q *request) error {
	if h.phase != running {
		return errStopping
	}
	if h.isNew(q) {
		if err := h.registry.room(q.key(), &h.o); err != nil {
			return err
		}
	}
	first, err := h.requests.add(q, h.registry.find(q.key()) != nil)
	if err == nil && first {
		h.start(func(ctx context.Context) { h.follow(ctx, q.key()) })
	}
	return err
}

// deny notifies a callback that it is not, or no longer, subscribed (H-09).
func (h *Hub) deny(callback, topic, token, why string) {
	q := &request{denied: why}
	q.form.HubForm = websub.HubForm{Mode: websub.ModeDenied, Callback: callback, Topic: topic, VerifyToken: token}
	if err := h.enqueue(q); err != nil {
		h.o.Log.Info("a denial could not be sent", "topic", topic, "callback", label(callback), "err", err)
	}
}

// follow works through the requests of one pair.
func (h *Hub) follow(ctx context.Context, key pair) {
	for q := h.next(key, 0); q != nil; q = h.next(key, 1) {
		err := errUnreachable
		h.guarded("verification", func() { err = h.handle(ctx, q) })
		q.answer(err)
	}
}

// next drops the first requests of a pair and returns the one behind them; after nil, nobody follows the pair.
func (h *Hub) next(key pair, drop int) *request {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != running {
		drop = len(h.requests.chains[key])
	}
	return h.requests.next(key, drop)
}

// handle verifies one request and does what was asked for (H-04 to H-08).
func (h *Hub) handle(ctx context.Context, q *request) (err error) {
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.requests.settled(q)
	}()
	lease := h.o.grant(q.form.Lease)
	why := ""
	for attempt := 0; ; attempt++ {
		var again bool
		if again, why, err = h.ask(ctx, q, lease); !again || q.sync || attempt == len(verifyAgain) {
			break
		}
		if !h.pauseFor(ctx, q, verifyAgain[attempt]) {
			break
		}
	}
	switch {
	case errors.Is(err, errStopping):
		return err
	case q.denied != "":
		why = q.denied
	case err == nil && q.form.Mode == websub.ModeUnsubscribe:
		h.unsubscribe(ctx, q.key())
		return nil
	case err == nil:
		return h.confirmed(ctx, q, lease)
	}
	h.o.Log.Info("a request was not confirmed", "mode", q.form.Mode, "topic", q.form.Topic,
		"callback", label(q.form.Callback), "why", why)
	return err
}

// confirmed records a subscription. The subscriber believes that it has one: where that cannot be, it is denied.
func (h *Hub) confirmed(ctx context.Context, q *request, lease time.Duration) error {
	if err := h.begin(ctx, q, lease); err != nil {
		if !isCrowded(err) {
			h.o.Log.Error("a subscription cannot be recorded", "topic", q.form.Topic, "err", err)
			err = errUnrecorded
		}
		if q.refresh {
			return err // it has what it had
		}
		h.deny(q.form.Callback, q.form.Topic, q.form.VerifyToken, err.Error())
		return err
	}
	return nil
}

// pauseFor waits before a request is verified once more; false if the hub stops, or the subscriber asked anew.
func (h *Hub) pauseFor(ctx context.Context, q *request, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-q.newer:
	case <-h.halt:
	case <-ctx.Done():
	}
	return false
}

// ask sends one verification of a request, or a denial. again: it may work later (H-05).
func (h *Hub) ask(ctx context.Context, q *request, lease time.Duration) (again bool, why string, err error) {
	v := websub.Verification{Mode: q.form.Mode, Topic: q.form.Topic, VerifyToken: q.form.VerifyToken}
	if q.denied != "" {
		v.Mode, v.Reason = websub.ModeDenied, q.denied
	} else {
		v.Challenge = rand.Text() // single use, 130 bits (H-04)
	}
	if q.form.Mode == websub.ModeSubscribe {
		v.Lease = int64(lease / time.Second)
	}
	target, err := websub.VerificationURL(q.form.Callback, v)
	if err != nil {
		return false, err.Error(), errUnconfirmed
	}
	for _, share := range q.shares {
		if share.enter(ctx) != nil {
			return true, "too many verifications for its site, or for whoever asks", errUnreachable
		}
		defer share.places.leave()
	}
	if !q.queue.places.enter(ctx, h.halt) {
		return false, "", errStopping
	}
	defer q.queue.places.leave()
	h.mu.Lock()
	if h.isNew(q) {
		h.requests.asking[q] = time.Now()
	}
	h.mu.Unlock()
	a, err := h.net.Send(ctx, fetch.Message{Method: http.MethodGet, URL: target, Timeout: verifyTimeout})
	switch {
	case err != nil:
		// What policy refuses will be refused again.
		return fetch.KindOf(err) != fetch.Refused, reason(err), errUnreachable
	case q.denied != "":
		return mayPass(a.Status), "", nil
	case a.Status >= 200 && a.Status <= 299 && !a.Cut && string(a.Body) == v.Challenge:
		return false, "", nil
	case a.Status >= 200 && a.Status <= 299:
		return false, "answered something else than the challenge", errUnconfirmed
	}
	return mayPass(a.Status), fmt.Sprintf("answered %d %s", a.Status, http.StatusText(a.Status)), errUnconfirmed
}

// mayPass reports whether a status says nothing about the question asked.
func mayPass(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout ||
		status == http.StatusTooEarly
}
