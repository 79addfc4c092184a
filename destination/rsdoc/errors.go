package rsdoc

import (
	"fmt"
	"io"
)

// Problem is why a document as a whole was refused.
type Problem uint8

// The problems. Whatever it is, nothing may be concluded from what the document does not list.
const (
	// NotXML: what came is something else, such as plain text, JSON or a ZIP.
	NotXML Problem = iota + 1
	// Malformed: not well-formed XML 1.0 with namespaces, or a document that contradicts itself.
	Malformed
	// Forbidden: well-formed, but with a document type or entity declaration. No ResourceSync document needs one; HTML
	// pages and attacks do.
	Forbidden
	// WrongEncoding: not UTF-8.
	WrongEncoding
	// WrongRoot: XML, but the root is not urlset or sitemapindex in the Sitemap namespace.
	WrongRoot
	// WrongKind: a ResourceSync document of another capability than asked for.
	WrongKind
	// Truncated: the input ended before the document did. Asking again may help.
	Truncated
	// Limit: larger than Options.Limits allows.
	Limit
)

// String names the problem for status, metrics and logs.
func (p Problem) String() string {
	switch p {
	case NotXML:
		return "not XML"
	case Malformed:
		return "malformed"
	case Forbidden:
		return "forbidden markup"
	case WrongEncoding:
		return "wrong encoding"
	case WrongRoot:
		return "wrong root"
	case WrongKind:
		return "wrong kind"
	case Truncated:
		return "truncated"
	case Limit:
		return "over a limit"
	}
	return "unknown problem"
}

// DocumentError says why a document was refused and where. Failures of the reader below (network, disk) are no
// DocumentErrors; they come wrapped, for errors.Is and errors.As.
type DocumentError struct {
	Problem Problem
	Offset  int64 // byte in the document, after inflating
	Detail  string
	cause   error
}

func (e *DocumentError) Error() string {
	return fmt.Sprintf("refused document (%s at byte %d): %s", e.Problem, e.Offset, e.Detail)
}

// Unwrap is what a Truncated document ran into (io.ErrUnexpectedEOF), or what gzip found.
func (e *DocumentError) Unwrap() error {
	if e.cause == nil && e.Problem == Truncated {
		return io.ErrUnexpectedEOF
	}
	return e.cause
}

// EntryError says why an entry was skipped. The document goes on.
type EntryError struct {
	Ordinal int64 // place in the document, from 0
	Offset  int64 // byte of its start tag, after inflating
	Detail  string
}

func (e *EntryError) Error() string {
	return fmt.Sprintf("skipped entry %d (at byte %d): %s", e.Ordinal, e.Offset, e.Detail)
}
