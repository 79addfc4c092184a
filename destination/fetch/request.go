package fetch

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"
)

// Policy is what one configured Source may cause to be requested. It is read only; many requests
// may share one.
type Policy struct {
	// Trusted are the hosts that the operator listed, as host or host:port without a scheme. They
	// may be dialled whatever their address range (CONTRIBUTING.md 8); a name without port covers
	// every port.
	Trusted []string
	// Auth are the Source's credentials. They go to AuthOrigin only and are dropped where a redirect leaves it.
	Auth *Auth
	// AuthOrigin is the Source's own origin, scheme://host[:port]. While it is empty no credentials are sent.
	AuthOrigin string
	// Concurrency and Rate override the client's values for the hosts of this Source (0: the
	// client's). Where Sources share a host, the stricter value holds for it.
	Concurrency int
	Rate        float64
	// Meter, if set, counts what the requests under this policy cost.
	Meter *Meter
}

// Auth are credentials. Any way of printing them shows a placeholder (P10).
type Auth struct {
	Bearer        string // Authorization: Bearer …
	BasicUser     string // Authorization: Basic …, if Bearer is empty
	BasicPassword string
	Headers       map[string]string // further headers, e.g. an API key
}

// Format implements fmt.Formatter, so that no verb prints a secret.
func (Auth) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(credentials)") }

// LogValue implements slog.LogValuer.
func (Auth) LogValue() slog.Value { return slog.StringValue("(credentials)") }

// MarshalText implements encoding.TextMarshaler: JSON and YAML print the placeholder too.
func (Auth) MarshalText() ([]byte, error) { return []byte("(credentials)"), nil }

// Request is a request for one URL. Only URL is needed.
type Request struct {
	// URL is absolute, http or https. It is sent as it stands: bytes that a URL may not contain,
	// and a stray %, are percent-encoded, the fragment is left off, nothing is decoded (F80, F81).
	// A URL with userinfo is refused.
	URL    string
	Policy *Policy // nil: nothing is trusted, no credentials

	// ETag and LastModified are validators from an earlier answer. With either, the request is
	// conditional and the answer may be NotModified.
	ETag, LastModified string
	// NoCache asks intermediate caches for a fresh copy (F59).
	NoCache bool
	// Gzip is for documents: gzip is requested and handed through undecoded, because rsdoc
	// recognises it by content. Without it identity is requested; a gzip coding sent all the same
	// is decoded under a ratio cap and named in Response.Encoding, so that the caller can insist on
	// the hash (F57).
	//
	// The body of a document takes no slot at the host: it is read bit by bit while the resources
	// it lists are fetched, and would otherwise wait for slots that wait for it.
	Gzip bool
	// Raw hands an unrequested gzip coding through undecoded too: for a hash that was made over the
	// coded bytes.
	Raw bool
	// InScope, if set, decides about the URL and every redirect target (F51, F60). false: Refused.
	InScope func(uri string) bool
	// MaxBytes bounds the body as handed out (and the whole resource of a range), 0 for no bound
	// (F56).
	MaxBytes int64
	// RangeFrom requests the rest from this byte on, 0 for all. IfRange is the strong ETag that
	// makes it safe. The answer is 206 with exactly that rest, or 200 with everything.
	RangeFrom int64
	IfRange   string

	// Once turns quick retries off, for a caller that repeats failures itself, except at a host
	// that throttles all requests. A Download still continues a large body where it can.
	Once bool

	// Waiting, if set, is called when a wait for the peer begins (true), for an answer or for more
	// of a body, and when it ends (false), with the local time. Waits for a slot and pauses between
	// tries do not count. It is called in the goroutine of the Get and of the reads.
	Waiting func(begins bool, at time.Time)
	// Resting, if set, is called when a retry begins with its pause (true), and when it is done
	// (false), so that others can take the worker's place meanwhile. It is called as Waiting.
	Resting func(begins bool)

	queued bool // Download: the caller's queue waits out a Retry-After
	// wireLength is the length that a Download declared for the resource, 0 unknown. It decides
	// between raw and decoded (F57).
	wireLength int64
}

// Info is everything about an answer except its body.
type Info struct {
	Status int // 200, 206 or 304
	// URL is the final URL, after redirects, without fragment. Relative references resolve against
	// it.
	URL          string
	NotModified  bool   // 304 to the request's validators
	ETag         string // as sent, quotes included
	LastModified string // as sent
	Type         string // Content-Type, as sent
	// Encoding is the Content-Encoding of the transfer in lower case, "" for identity. For a
	// resource "gzip" means that the body was decoded here (Decoded), or is handed out coded (Gzip,
	// Raw, or a declared length that fits).
	Encoding string
	Decoded  bool
	Length   int64     // bytes of the body, -1 if unknown or decoded here
	Total    int64     // bytes of the whole resource: Length, for 206 from Content-Range; -1 unknown
	Date     time.Time // the Source's clock (coverage.md 1); zero if absent or unreadable
	Header   http.Header
	// CloseDelimited says that the body ends where the connection does, so that a cut looks like
	// its end (F55): only a hash or a declared length proves it complete.
	CloseDelimited bool
	Redirected     bool // at least one redirect was followed
	Permanent      bool // and every one of them was permanent (301, 308)
	Requests       int  // sent on the wire for this call, retries and redirects included
}

// StrongETag reports whether ETag is there and strong, fit for If-Range.
func (i *Info) StrongETag() bool { return strongETag(i.ETag) }

// Response is a usable answer. Body must be closed (also of a NotModified one, where it is empty):
// until then that of a resource holds one of the host's slots. Body is safe for one reader; its
// errors are *Error. Reading it to the end keeps the connection for the next request.
type Response struct {
	Info
	Body io.ReadCloser
}
