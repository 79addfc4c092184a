package subscribe

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"resyncd/destination/fetch"
	"resyncd/store"
)

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
