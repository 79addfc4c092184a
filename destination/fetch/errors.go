package fetch

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Kind says what a failure means for the caller.
type Kind uint8

// The kinds, and what a caller does about each.
const (
	KindUnknown Kind = iota // not of this package
	Canceled                // the caller's context ended: stop
	Transient               // network, DNS, 408, 425, 5xx, body cut short: ask later
	Throttled               // 429, 503 with Retry-After, or a closed host: not before RetryAfter
	Gone                    // 404 or 410: evidence about a deletion, never a deletion by itself (F47)
	Denied                  // 401, 403, 407: alarm, never a deletion
	Rejected                // another 4xx: asking the same again will not help
	Refused                 // not sent or not followed: scheme, scope, address policy, redirects
	Stalled                 // too little moved for too long (F54)
	TooLarge                // more than MaxBytes (F56)
	Broken                  // contradicts itself, the request or the declared length
	TLS                     // certificate or handshake: keep what is there, alarm (F61)
)

// String is the name in logs, metrics and the failure ledger.
func (k Kind) String() string {
	names := [...]string{"unknown", "canceled", "transient", "throttled", "gone", "denied", "rejected", "refused",
		"stalled", "too-large", "broken", "tls"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// ErrHostDown is in the chain of a Throttled error for a host whose circuit is open (F78).
var ErrHostDown = errors.New("host keeps failing")

// ErrClosed is in the chain of errors after Client.Close.
var ErrClosed = errors.New("client is closed")

// Error is every failure of this package except that of a Sink.
type Error struct {
	Op         string // "get", "read", "post" …
	URL        string // of the last hop, redacted: no userinfo, no query, of Send no path (P10)
	Kind       Kind
	Status     int           // 0 if there was none
	Hop        int           // 0: the requested URL; n: the target of its n-th redirect
	RetryAfter time.Duration // Throttled: at most 1 h; 0 if unknown
	Requests   int
	Err        error
}

// Error is printable on a terminal whatever the peer sent.
func (e *Error) Error() string {
	if e.Op == "" {
		return e.Err.Error() // the cause of another one
	}
	s := fmt.Sprintf("%s %s: %s", e.Op, e.URL, printable(e.Err.Error()))
	if e.RetryAfter > 0 {
		s += fmt.Sprintf(" (not before %s from now)", e.RetryAfter.Round(time.Millisecond))
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of an error, however wrapped.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return KindUnknown
}

// because is a failure that its caller completes, with what was asked of whom.
func because(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Err: fmt.Errorf(format, args...)}
}

// printable replaces characters with which a peer could draw on a terminal or forge a log line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
}
