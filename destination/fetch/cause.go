package fetch

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

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
