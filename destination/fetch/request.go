package fetch

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"
)

// Policy is what one configured Source may make us ask. It is read only; one value may serve many requests at once.
type Policy struct {
	// Trusted are the hosts that the operator wrote down, as host or host:port without a scheme. They may be dialled
	// whatever their address range (design.md 8); a name without port covers every port.
	Trusted []string
	// Auth are the Source's credentials. They go to AuthOrigin only and are dropped where a redirect leaves it.
	Auth *Auth
	// AuthOrigin is the Source's own origin, scheme://host[:port]. While it is empty no credentials are sent.
	AuthOrigin string
	// Concurrency and Rate override the client's values for the hosts that this Source makes us ask (0: the client's).
	// Where Sources share a host, the stricter value holds for it.
	Concurrency int
	Rate        float64
	// Meter, if set, counts what the requests under this policy cost.
	Meter *Meter
}

// Auth are credentials. It prints as a placeholder, however it is printed (P10).
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

// Request is one question. Only URL is needed.
type Request struct {
	// URL is absolute, http or https. It is sent as it stands: bytes that may not stand in a URL, and a stray %, are
	// percent-encoded, the fragment is left off, nothing is decoded (F80, F81). One with userinfo is refused.
	URL    string
	Policy *Policy // nil: nothing is trusted, no credentials

	// ETag and LastModified are validators from an earlier answer; with either the request is conditional and the
	// answer may be NotModified.
	ETag, LastModified string
	// NoCache asks caches on the way for a fresh copy (F59).
	NoCache bool
	// Gzip is for documents: gzip is asked for and handed through undecoded, rsdoc recognises it by content. Without it
	// the identity coding is asked for; a gzip coding sent all the same is decoded under a ratio cap and named in
	// Response.Encoding, so that the caller can insist on the hash (F57). The body of a document takes no place at the
	// host: it is read bit by bit while the resources it lists are fetched, and would otherwise wait for places that
	// wait for it.
	Gzip bool
	// Raw hands an unasked-for gzip coding through undecoded too: for a hash that was made over the coded bytes.
	Raw bool
	// InScope, if set, is asked for the URL and for every redirect target (F51, F60). false: Refused.
	InScope func(uri string) bool
	// MaxBytes bounds the body as it is handed out (and the whole resource of a range), 0 for no bound (F56).
	MaxBytes int64
	// RangeFrom asks for the rest from this byte on, 0 for all. IfRange is the strong ETag that makes it safe. The
	// answer is 206 with exactly that rest, or 200 with everything.
	RangeFrom int64
	IfRange   string

	// Waiting, if set, is told when a wait for the peer begins (true), for an answer or for more of a body, and when it ends
	// (false), with the time by our clock. Waits for a place and pauses between two tries are our own and none of these. It is
	// called in the goroutine of the Get and of the reads.
	Waiting func(begins bool, at time.Time)
	// Resting, if set, is told when something is to be asked again, which begins with a pause (true), and when that has been done
	// (false). Who rests leaves its place to others. It is called as Waiting.
	Resting func(begins bool)

	queued     bool  // Download: its caller has a queue that sleeps out a Retry-After
	wireLength int64 // Download: the length declared for the resource, 0 unknown; decides raw or decoded (F57)
}

// Info is everything about an answer but its body.
type Info struct {
	Status       int    // 200, 206 or 304
	URL          string // final URL, after redirects, without fragment; what relative references resolve against
	NotModified  bool   // 304 to our validators
	ETag         string // as sent, quotes included
	LastModified string // as sent
	Type         string // Content-Type, as sent
	// Encoding is the Content-Encoding of the transfer in lower case, "" for identity. For a resource "gzip" means
	// that the body was decoded here (Decoded), or is handed out coded (Gzip, Raw, or a declared length that fits).
	Encoding string
	Decoded  bool
	Length   int64     // bytes that the body will bring, -1 if the peer did not say or they are decoded here
	Total    int64     // bytes of the whole resource: Length, for 206 from Content-Range; -1 unknown
	Date     time.Time // the Source's clock (coverage.md 1); zero if absent or unreadable
	Header   http.Header
	// CloseDelimited: the body ends where the connection does. A cut cannot be told from the end (F55): believe it
	// only if a hash or a declared length proves it.
	CloseDelimited bool
	Redirected     bool // at least one redirect was followed
	Permanent      bool // and every one of them was permanent (301, 308)
	Requests       int  // sent on the wire for this call, retries and redirects included
}

// StrongETag reports whether ETag is there and strong, fit for If-Range.
func (i *Info) StrongETag() bool { return strongETag(i.ETag) }

// Response is a usable answer. Body must be closed (also of a NotModified one, where it is empty): until then that of a
// resource holds one of the host's places. Body is safe for one reader; its errors are *Error. Reading it to the end keeps the
// connection for the next request.
type Response struct {
	Info
	Body io.ReadCloser
}
