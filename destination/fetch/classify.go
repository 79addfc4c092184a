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
	if errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	var (
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		alert        tls.AlertError
	)
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert) || isCertificate(err)
}

func isCertificate(err error) bool {
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &authority) || errors.As(err, &hostname) || errors.As(err, &invalid)
}

// neverSent reports a failure before anything was sent.
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
