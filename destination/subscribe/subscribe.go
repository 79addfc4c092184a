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
