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
)

// classify turns what the transport returned into a cause with a kind. Whether it was our own cancellation is told by
// the context alone: a peer's timeout is a context.DeadlineExceeded too (models.md 2.5).
func classify(ctx context.Context, err error) *kinded {
	if cut, ok := errors.AsType[*kinded](context.Cause(ctx)); ok {
		return cut // our watchdog cut it
	}
	if ctx.Err() != nil {
		return &kinded{kind: Canceled, err: context.Cause(ctx)}
	}
	if k, ok := errors.AsType[*kinded](err); ok {
		return k // the guard, the gate
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // its text repeats the whole URL
	}
	if isTLS(err) {
		return &kinded{kind: TLS, err: err}
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("connection closed without an answer: %w", err)
	}
	return &kinded{kind: Transient, err: err}
}

func isTLS(err error) bool {
	if errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	var (
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		alert        tls.AlertError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		invalid      x509.CertificateInvalidError
	)
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert) ||
		errors.As(err, &authority) || errors.As(err, &hostname) || errors.As(err, &invalid)
}

// neverSent tells the failures before anything was sent: refused by us, no address, no connection.
func neverSent(err error) bool {
	if err == nil {
		return false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	_, dns := errors.AsType[*net.DNSError](err)
	return dns
}

// isTimeout tells the slow failures (dial, handshake, headers): another quick try would hold a worker as long again.
func isTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

// kindOfStatus sorts every status that is no answer.
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
	return Broken // a 2xx without the resource, a redirect without target, nonsense
}

// quickly reports whether a status is worth another try within seconds.
func quickly(status int) bool {
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

func isPermanent(status int) bool {
	return status == http.StatusMovedPermanently || status == http.StatusPermanentRedirect
}

// statusError is the text of an unusable status; the reason phrase is ours, not the peer's. nil for a usable one.
func statusError(resp *http.Response) error {
	if resp.StatusCode < 400 {
		return nil
	}
	return fmt.Errorf("answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
}
