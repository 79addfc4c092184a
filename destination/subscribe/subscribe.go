package subscribe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"resyncd/destination/fetch"
	"resyncd/destination/websub"
	"resyncd/store"
)

type situation struct {
	sub       store.Subscription
	role      role
	successor store.Subscription // decides about a kept or replaced one
	plan      Plan
	planned   bool
	due       bool          // not changed since
	early     time.Duration // missing to the gap of F23
}

func (k *Keeper) situation(id int64) (situation, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.table.entries[id]
	if r == nil {
		return situation{}, false
	}
	now, uptime := k.now(), k.uptime()
	of := r.channel.source
	place, by := r.role()
	return situation{sub: r.sub, role: place, successor: *by, plan: of.plan, planned: of.planned,
		// By either clock: each may have been stopped or set (F15, F16).
		due: r.due.Known() && (r.due <= now || r.at <= uptime), early: max(r.sent+gap-uptime, 0)}, true
}

// step does what is due for one record. Its errors are the store's: the record is unchanged.
func (k *Keeper) step(ctx context.Context, id int64) (health, error) {
	in, ok := k.situation(id)
	if !ok {
		return unasked, nil
	}
	now := k.now()
	s := &in.sub
	switch {
	case toUnsubscribe(s) && in.due && remaining(s, now) == 0:
		return unasked, k.update(ctx, s, unsubscribed)
	case toUnsubscribe(s) && in.due:
		return k.unsubscribe(ctx, in)
	case !in.planned || toUnsubscribe(s) || s.State == store.SubOff:
		return unasked, nil
	case in.role == replaced:
		return unasked, k.retire(ctx, in)
	case s.Live() && remaining(s, now) == 0:
		return unasked, k.update(ctx, s, expire)
	case s.Live() && !s.Renew.Known():
		return unasked, k.update(ctx, s, cancelEnd)
	case in.role == kept && !s.Live():
		return unasked, nil
	}
	if in.role == head && exhausted(s) {
		if moved, err := k.advance(ctx, id); moved || err != nil {
			return unasked, err
		}
	}
	switch {
	case !in.due:
		return unasked, nil
	case assumable(s):
		return unasked, k.update(ctx, s, assume)
	case s.State == store.SubActive && k.old(&in):
		return unasked, k.rotate(ctx, id)
	}
	return k.subscribe(ctx, in)
}

// exhausted reports that another hub is worth a try (F32).
func exhausted(s *store.Subscription) bool {
	switch s.State {
	case store.SubDenied:
		return true
	case store.SubPending:
		return s.Attempts >= silentPatience
	case store.SubFailed, store.SubLapsed, store.SubRenewing:
		return s.Attempts >= patience(s.Live())
	}
	return false
}

// old reports that callback and secret are due for replacement (S-52), and that no older member is still being ended.
func (k *Keeper) old(in *situation) bool {
	if in.role != head || since(in.sub.Rotated, k.now()) < rotation {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.table.entries[in.sub.Replaces] == nil
}

// The decision was made on seen.
func unchanged(s, seen *store.Subscription) bool {
	return s.State == seen.State && s.Next == seen.Next && s.Requested == seen.Requested && s.Verified == seen.Verified
}

// postpone keeps the gap of F23, and reports whether that was needed.
func (in *situation) postpone(s *store.Subscription, m moment) bool {
	at := max(notTooSoon(s, m.now, m.now), plus(m.now, in.early))
	if at <= m.now {
		return false
	}
	s.Next = at
	return true
}

func (k *Keeper) update(ctx context.Context, seen *store.Subscription, fn func(*store.Subscription, moment)) error {
	m := k.moment()
	_, err := k.change(ctx, seen.ID, func(s *store.Subscription) error {
		if !unchanged(s, seen) {
			return errKeep
		}
		fn(s, m)
		return nil
	})
	return err
}

// retire ends a member that a verified successor replaces.
func (k *Keeper) retire(ctx context.Context, in situation) error {
	switch s := &in.sub; {
	case s.Live() && s.Renew.Known():
		return k.update(ctx, s, func(s *store.Subscription, m moment) { endAfterGrace(s, &in.successor, m) })
	case s.Live() && !in.due:
		return nil
	}
	return k.endMember(ctx, &in.sub)
}

// The stored time of a request misleads after the clock went back (F15, F23).
func (k *Keeper) noteRequest(id int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.table.entries[id]; r != nil {
		r.sent = k.uptime()
	}
}

func (k *Keeper) sourceName(id int64) string {
	p, _ := k.planOf(id)
	return p.Name
}

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
	profile := rung(recorded.Profile)
	form := websub.HubForm{
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

func (k *Keeper) sendForm(ctx context.Context, p Plan, hub string, form websub.HubForm,
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

// settling is a context to end in what was begun, even if the daemon is told to stop meanwhile.
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

// answerClass is what an answer to a request means.
type answerClass uint8

const (
	accepted   answerClass = iota // any 2xx (F27)
	noAnswer                      // asked again with back-off
	busy                          // 5xx, 408, 425, 429: asked again with back-off
	refused                       // another 4xx: the next rung of the ladder (T-05)
	notAllowed                    // a redirect, or forbidden by policy: no rung would change it
)

// String is for logs.
func (v answerClass) String() string {
	return [...]string{"accepted", "unheard", "busy", "refused", "misdirected"}[v]
}

type hubAnswer struct {
	class      answerClass
	status     int
	reason     string
	cause      string // of reason (fetch.CauseOf)
	retryAfter time.Duration
	took       time.Duration
}

func (h *hubAnswer) health() health {
	if h.class == noAnswer || h.took > slow {
		return sick
	}
	return well
}

// readAnswer classifies an answer. Hubs repeat what they were sent, and the callback and the secret of s must not get
// into a log or a page (P10).
func readAnswer(a *fetch.Answer, err error, s *store.Subscription) hubAnswer {
	if err != nil {
		return readFailure(err, s)
	}
	h := hubAnswer{status: a.Status, retryAfter: a.RetryAfter}
	said := clean(string(a.Body), s)
	switch {
	case a.Status >= 200 && a.Status < 300:
		h.class, h.retryAfter = accepted, 0
		return h
	case a.Status < 400:
		// A client that followed would turn the request into a GET, whose 200 looks like success (S-30, F26).
		h.class = notAllowed
		said = "it redirects where subscriptions must not follow; set `hub` to its right address"
		if to := location(a); to != "" {
			said += ", it names " + clean(fetch.RedactURL(to), s)
		}
	case a.Status == http.StatusTooManyRequests, a.Status == http.StatusRequestTimeout,
		a.Status == http.StatusTooEarly, a.Status >= 500:
		h.class = busy
	default:
		h.class = refused
	}
	h.reason = fmt.Sprintf("the hub answered %d %s", a.Status, http.StatusText(a.Status))
	h.cause = fetch.CauseStatus + strconv.Itoa(a.Status)
	if said != "" {
		h.reason += ": " + said
	}
	return h
}

// Many hubs name only a path.
func location(a *fetch.Answer) string {
	to := a.Header.Get("Location")
	ref, err := url.Parse(to)
	if err != nil || to == "" {
		return to
	}
	at, err := url.Parse(a.URL)
	if err != nil {
		return to
	}
	return at.ResolveReference(ref).String()
}

func readFailure(err error, s *store.Subscription) hubAnswer {
	h := hubAnswer{class: noAnswer, reason: clean(err.Error(), s), cause: fetch.CauseOf(err)}
	if e, ok := errors.AsType[*fetch.Error](err); ok {
		h.retryAfter = e.RetryAfter
		if e.Kind == fetch.Refused || e.Kind == fetch.Broken {
			h.class = notAllowed
		}
	}
	return h
}

const reasonMost = 500

// A shorter query value may be part of any word.
const tokenLeast = 6

func tokensOf(raw string) (out []string) {
	_, query, _ := strings.Cut(raw, "?")
	for pair := range strings.SplitSeq(query, "&") {
		_, value, found := strings.Cut(pair, "=")
		if !found {
			value = pair
		}
		if plain, err := url.QueryUnescape(value); err == nil && plain != value && len(plain) >= tokenLeast {
			out = append(out, plain)
		}
		if len(value) >= tokenLeast {
			out = append(out, value)
		}
	}
	return out
}

// clean makes a peer's words one printable line of bounded length, without the secrets of s and of the URLs of its
// topic and hub.
func clean(text string, s *store.Subscription) string {
	for _, secret := range slices.Concat([]string{s.Token, s.Secret}, tokensOf(s.Topic), tokensOf(s.Hub)) {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
			text = strings.ReplaceAll(text, url.QueryEscape(secret), "…") // as a form encodes it
		}
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Join(strings.Fields(text), " ")
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, text)
	if utf8.RuneCountInString(text) > reasonMost {
		text = string([]rune(text)[:reasonMost-1]) + "…"
	}
	return text
}
