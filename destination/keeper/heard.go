package keeper

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"resyncd/destination/fetch"
	"resyncd/store"
)

// verdict is what an answer to a request means.
type verdict uint8

const (
	accepted    verdict = iota // any 2xx (F27)
	unheard                    // no answer: asked again with back-off
	busy                       // 5xx, 408, 425, 429: the same
	refused                    // another 4xx: the next rung of the ladder (T-05)
	misdirected                // a redirect that is not followed, or what policy forbids: no rung would change it
)

// String is for logs.
func (v verdict) String() string {
	return [...]string{"accepted", "unheard", "busy", "refused", "misdirected"}[v]
}

// heard is an answer to a request, or that there was none.
type heard struct {
	verdict    verdict
	status     int
	reason     string
	retryAfter time.Duration
	took       time.Duration
	cutOff     bool // we stopped it ourselves
}

func (h *heard) health() health {
	if h.verdict == unheard || h.took > slow {
		return sick
	}
	return well
}

// hear reads an answer. Its reason is fit to be shown: hubs like to repeat what they were sent, and the callback and the
// secret of s must not get into a log or a page (P10).
func hear(a *fetch.Answer, err error, s *store.Subscription) heard {
	if err != nil {
		return hearFailure(err, s)
	}
	h := heard{status: a.Status, retryAfter: a.RetryAfter}
	said := clean(string(a.Body), s)
	switch {
	case a.Status >= 200 && a.Status < 300:
		h.verdict, h.retryAfter = accepted, 0
		return h
	case a.Status < 400:
		// Go's client would turn the request into a GET there, whose 200 looks like success (S-30, F26).
		h.verdict = misdirected
		said = "it redirects where subscriptions must not follow; set `hub` to its right address"
		if to := location(a); to != "" {
			said += ", it names " + clean(fetch.RedactURL(to), s)
		}
	case a.Status == http.StatusTooManyRequests, a.Status == http.StatusRequestTimeout, a.Status == http.StatusTooEarly, a.Status >= 500:
		h.verdict = busy
	default:
		h.verdict = refused
	}
	h.reason = fmt.Sprintf("the hub answered %d %s", a.Status, http.StatusText(a.Status))
	if said != "" {
		h.reason += ": " + said
	}
	return h
}

// location is where an answer redirects to, read as its URL would have it: many hubs name but a path.
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

func hearFailure(err error, s *store.Subscription) heard {
	h := heard{verdict: unheard, reason: clean(err.Error(), s)}
	if e, ok := errors.AsType[*fetch.Error](err); ok {
		h.retryAfter = e.RetryAfter
		if e.Kind == fetch.Refused || e.Kind == fetch.Broken {
			h.verdict = misdirected
		}
	}
	return h
}

const reasonMost = 500

// tokenLeast is from what length on a value of a query may be a token; shorter ones may be part of any word.
const tokenLeast = 6

// tokensOf are the values in the query of a URL that may be tokens.
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

// clean makes what a peer said one printable line of at most 500 characters, without what is secret of s, or may be, as in the
// queries of its topic and hub.
func clean(text string, s *store.Subscription) string {
	for _, secret := range slices.Concat([]string{s.Token, s.Secret}, tokensOf(s.Topic), tokensOf(s.Hub)) {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
			text = strings.ReplaceAll(text, url.QueryEscape(secret), "…") // as it stands in a form
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
