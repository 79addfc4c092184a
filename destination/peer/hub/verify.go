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

const (
	verifyTimeout = 10 * time.Second
	chainMost     = 8 // intents of one topic and callback that wait for each other
)

// verifyAgain are the waits before an intent is verified once more, where the callback could not be reached (H-05).
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
	errCrowdedHost  = errors.New("hub.callback: its host has all the subscriptions that this hub bears for one: try again later")
)

func isCrowded(err error) bool {
	return errors.Is(err, errCrowded) || errors.Is(err, errCrowdedTopic) || errors.Is(err, errCrowdedHost)
}

// pair is what a subscription is known by.
type pair struct{ topic, callback string }

// intent is a request that waits for its verification. They are kept in memory only: what nobody has confirmed takes no
// room on disk, and who is not verified asks again (S-30).
type intent struct {
	form    form
	client  string        // the address that it came from; "" where nobody asked
	line    *line         // where it waits
	shares  []string      // of that line that it takes from
	denied  string        // tell the callback that it is refused, and why, instead
	refresh bool          // nobody asked: a lease nears its end
	sync    bool          // somebody waits for the outcome: one attempt only
	done    chan error    // of one place
	newer   chan struct{} // closed when another of the same pair waits behind it
	over    chan struct{} // closed when it is settled
}

// answer tells the outcome to whoever waits for it; only the first counts.
func (in *intent) answer(err error) {
	select {
	case in.done <- err:
	default:
	}
}

// enqueue has an intent verified as soon as possible, but after those of the same pair that came before, so that a
// subscriber that changes its mind gets what it asked for last.
func (h *Hub) enqueue(in *intent) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.append(in)
}

// append is enqueue for those who hold h.mu.
func (h *Hub) append(in *intent) error {
	in.done, in.newer, in.over = make(chan error, 1), make(chan struct{}), make(chan struct{})
	key := pair{in.form.Topic, in.form.Callback}
	in.line, in.shares = h.strangers, sharesOf(in.client, in.form.Callback)
	if h.laneOf(key) != nil {
		in.line = h.living
	}
	chain := h.chains[key]
	switch {
	case h.phase != running:
		return errStopping
	case len(chain) >= chainMost || in.line.full(in.shares):
		return errTooMany
	}
	if in.form.Mode == websub.ModeSubscribe && in.denied == "" {
		if err := h.room(key); err != nil {
			return err
		}
	}
	h.chains[key] = append(chain, in)
	in.line.count(in.shares)
	if n := len(chain); n > 0 {
		close(chain[n-1].newer)
	} else {
		h.spawn(func(ctx context.Context) { h.follow(ctx, key) })
	}
	return nil
}

// laneOf finds a subscription, or nil. h.mu is held.
func (h *Hub) laneOf(key pair) *lane {
	if t := h.topics[key.topic]; t != nil {
		return t.lanes[key.callback]
	}
	return nil
}

// room tells why there is none for a new subscription; one that there is keeps its place. h.mu is held.
func (h *Hub) room(key pair) error {
	t := h.topics[key.topic]
	switch {
	case h.laneOf(key) != nil:
		return nil
	case h.subs >= h.o.MaxSubscriptions:
		return errCrowded
	case t != nil && len(t.lanes) >= h.o.MaxPerTopic:
		return errCrowdedTopic
	case h.subsOf[siteOf(key.callback)] >= h.o.MaxPerHost:
		return errCrowdedHost
	}
	return nil
}

// deny tells a callback that it is not, or no longer, subscribed (H-09).
func (h *Hub) deny(callback, topic, token, why string) {
	in := &intent{denied: why}
	in.form.HubForm = websub.HubForm{Mode: websub.ModeDenied, Callback: callback, Topic: topic, VerifyToken: token}
	if err := h.enqueue(in); err != nil {
		h.o.Log.Info("a denial could not be sent", "topic", topic, "callback", label(callback), "err", err)
	}
}

// follow works through the intents of one pair.
func (h *Hub) follow(ctx context.Context, key pair) {
	for in := h.first(key, 0); in != nil; in = h.first(key, 1) {
		in.answer(h.handle(ctx, in))
	}
}

// first is the first intent of a pair once so many are done with; nil where there is none, or the hub stops, and then nobody
// follows the pair any more. Both in one: in between an intent that came would have been followed twice.
func (h *Hub) first(key pair, done int) *intent {
	h.mu.Lock()
	defer h.mu.Unlock()
	chain := h.chains[key]
	if h.phase != running {
		done = len(chain)
	}
	for _, in := range chain[:done] {
		in.line.uncount(in.shares)
	}
	if chain = chain[done:]; len(chain) == 0 {
		delete(h.chains, key)
		return nil
	}
	h.chains[key] = chain
	return chain[0]
}

// handle verifies one intent and does what was asked for (H-04 to H-08).
func (h *Hub) handle(ctx context.Context, in *intent) (err error) {
	defer func() {
		if bug := recover(); bug != nil { // the intents behind this one go on
			h.o.Log.Error("a verification broke off; please report this", "panic", bug)
			err = errUnreachable
		}
	}()
	defer h.settled(in)
	lease := h.o.grant(in.form.Lease)
	said := ""
	for attempt := 0; ; attempt++ {
		var again bool
		if again, said, err = h.ask(ctx, in, lease); !again || in.sync || attempt == len(verifyAgain) {
			break
		}
		if !h.pauseFor(ctx, in, verifyAgain[attempt]) {
			break
		}
	}
	about := Event{Kind: Unverified, Topic: in.form.Topic, Why: said}
	switch {
	case errors.Is(err, errStopping):
		return err
	case in.denied != "":
		about.Kind, about.Why = Denied, in.denied
	case err == nil && in.form.Mode == websub.ModeUnsubscribe:
		h.leave(ctx, &in.form)
		return nil
	case err == nil:
		return h.confirmed(ctx, in, lease)
	}
	h.o.Log.Info("a request was not confirmed", "mode", in.form.Mode, "topic", in.form.Topic, "callback", label(in.form.Callback),
		"why", said)
	h.o.Observe(about)
	return err
}

// confirmed records a subscription. The subscriber believes that it has one: where that cannot be, it is told.
func (h *Hub) confirmed(ctx context.Context, in *intent, lease time.Duration) error {
	if err := h.begin(ctx, in, lease); err != nil {
		if !isCrowded(err) {
			h.o.Log.Error("a subscription cannot be recorded", "topic", in.form.Topic, "err", err)
			err = errUnrecorded
		}
		if in.refresh {
			return err // it has what it had
		}
		h.deny(in.form.Callback, in.form.Topic, in.form.VerifyToken, err.Error())
		return err
	}
	h.o.Log.Info("a subscription was verified", "topic", in.form.Topic, "callback", label(in.form.Callback), "lease", lease)
	return nil
}

// pauseFor waits before an intent is verified once more; false if it is not to be: the hub stops, or the subscriber asked
// anew and is to be heard on that.
func (h *Hub) pauseFor(ctx context.Context, in *intent, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-in.newer:
	case <-h.halt:
	case <-ctx.Done():
	}
	return false
}

// ask sends one verification of intent, or a denial. again: it may work later (H-05).
func (h *Hub) ask(ctx context.Context, in *intent, lease time.Duration) (again bool, said string, err error) {
	v := websub.Verification{Mode: in.form.Mode, Topic: in.form.Topic, VerifyToken: in.form.VerifyToken}
	if in.denied != "" {
		v.Mode, v.Reason = websub.ModeDenied, in.denied
	} else {
		v.Challenge = rand.Text() // single use, 130 bits (H-04)
	}
	if in.form.Mode == websub.ModeSubscribe {
		v.Lease, v.LeaseKnown = int64(lease/time.Second), true
	}
	target, err := websub.VerificationURL(in.form.Callback, v)
	if err != nil {
		return false, err.Error(), errUnconfirmed
	}
	for _, share := range in.shares {
		leave, err := in.line.limits.enter(ctx, share)
		if err != nil {
			return true, "too many verifications for its site, or for whoever asks", errUnreachable
		}
		defer leave()
	}
	if !in.line.checking.enter(ctx, h.halt) {
		return false, "", errStopping
	}
	defer in.line.checking.leave()
	h.asked(in)
	a, err := h.net.Send(ctx, fetch.Message{Method: http.MethodGet, URL: target, Timeout: verifyTimeout})
	switch {
	case err != nil:
		// What policy refuses will be refused again.
		return fetch.KindOf(err) != fetch.Refused, because(err), errUnreachable
	case in.denied != "":
		return passing(a.Status), "", nil
	case a.Status >= 200 && a.Status <= 299 && !a.Cut && string(a.Body) == v.Challenge:
		return false, "", nil
	case a.Status >= 200 && a.Status <= 299:
		return false, "answered something else than the challenge", errUnconfirmed
	}
	return passing(a.Status), fmt.Sprintf("answered %d %s", a.Status, http.StatusText(a.Status)), errUnconfirmed
}

// passing reports whether a status says nothing about the question asked.
func passing(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status == http.StatusTooEarly
}
