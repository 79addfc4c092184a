package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"code.dny.dev/ssrf"
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

// The causes of failures: stable words that are kept with a failure, by which is told what to do about it. A status is
// CauseStatus and its number.
const (
	CauseStatus      = "http-"
	CauseServer      = "http-5xx" // several of them
	CauseHost        = "no-such-host"
	CauseConnection  = "connection-refused"
	CauseCertificate = "certificate"
	CauseTLS         = "tls"
	CauseAddress     = "address" // not allowed by policy
)

// Cause is why asking failed, "" where no word stands for it.
func (e *Error) Cause() string {
	var dns *net.DNSError
	switch {
	case e.Status >= 400:
		return CauseStatus + strconv.Itoa(e.Status)
	case isCertificate(e.Err):
		return CauseCertificate
	case e.Kind == TLS:
		return CauseTLS
	case errors.Is(e.Err, ssrf.ErrProhibitedIP):
		return CauseAddress
	case errors.As(e.Err, &dns) && dns.IsNotFound:
		return CauseHost
	case errors.Is(e.Err, syscall.ECONNREFUSED):
		return CauseConnection
	}
	return ""
}

// CauseOf is the one cause of a failure, as the errors in it that have a method Cause tell it; "" if there is none, or
// several that differ: nobody could say what to do about those.
func CauseOf(err error) string { return OneCause(causes(err)) }

// OneCause is what all causes are, those that are not known aside.
func OneCause(all []string) (one string) {
	for _, cause := range all {
		switch {
		case cause == "" || cause == one:
		case one == "":
			one = cause
		case strings.HasPrefix(one, CauseStatus+"5") && strings.HasPrefix(cause, CauseStatus+"5"):
			one = CauseServer
		default:
			return ""
		}
	}
	return one
}

// causes are those of the outermost errors that know theirs.
func causes(err error) (all []string) {
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case interface{ Cause() string }:
		return []string{e.Cause()}
	case interface{ Unwrap() error }:
		return causes(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			all = append(all, causes(one)...)
		}
	}
	return all
}

// Only the context tells our own cancellation: a peer's timeout is a context.DeadlineExceeded too.
func classify(ctx context.Context, err error) *Error {
	if cut, ok := errors.AsType[*Error](context.Cause(ctx)); ok && cut.Op == "" {
		return cut // by Send's own timeout: a caller's cause may be the failure of another request
	}
	if ctx.Err() != nil {
		return &Error{Kind: Canceled, Err: context.Cause(ctx)}
	}
	if k, ok := errors.AsType[*Error](err); ok {
		return k // from the guard, or from a closed client
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // its text repeats the whole URL
	}
	if isTLS(err) {
		return &Error{Kind: TLS, Err: err}
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("connection closed without an answer: %w", err)
	}
	return &Error{Kind: Transient, Err: err}
}

func isTLS(err error) bool {
	return errors.Is(err, http.ErrSchemeMismatch) || is[*tls.CertificateVerificationError](err) ||
		is[tls.RecordHeaderError](err) || is[tls.AlertError](err) || isCertificate(err)
}

func isCertificate(err error) bool {
	return is[x509.UnknownAuthorityError](err) || is[x509.HostnameError](err) || is[x509.CertificateInvalidError](err)
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// neverSent reports a failure before anything was sent.
func neverSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" || is[*net.DNSError](err)
}

// isTimeout: another quick try would hold a worker as long again.
func isTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

func kindOfStatus(status int, wait bool) Kind {
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable && wait:
		return Throttled
	case status == http.StatusNotFound, status == http.StatusGone:
		return Gone
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		return Denied
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status >= 500 && status <= 599:
		return Transient
	case status >= 400 && status <= 499:
		return Rejected
	}
	return Broken
}

func isQuicklyRetried(status int) bool {
	switch status {
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported, http.StatusNetworkAuthenticationRequired:
		return false
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500 && status <= 599
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		return true
	}
	return false
}

// The words are this package's, not the peer's.
func statusError(resp *http.Response) error {
	if resp.StatusCode < 400 {
		return nil
	}
	return fmt.Errorf("answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
}
