package rsdoc

import (
	"fmt"
	"io"
)

// Problem is why a document as a whole was refused.
type Problem uint8

// Nothing may be concluded from what a refused document does not list.
const (
	// NotXML is anything else, such as plain text, JSON or a ZIP.
	NotXML Problem = iota + 1
	// Malformed is not well-formed, or contradicts itself.
	Malformed
	// Forbidden is a document type or entity declaration: HTML pages and attacks have them.
	Forbidden
	// WrongEncoding is any encoding but UTF-8.
	WrongEncoding
	// WrongRoot is no urlset or sitemapindex in the Sitemap namespace.
	WrongRoot
	// WrongKind is a ResourceSync document of an unexpected capability.
	WrongKind
	// Truncated is an input that ended before the document did.
	Truncated
	// Limit is a document beyond Options.Limits.
	Limit
)

var problems = [...]string{
	"unknown problem", "not XML", "malformed", "forbidden markup", "wrong encoding", "wrong root", "wrong kind",
	"truncated", "over a limit",
}

// String names the problem for status, metrics and logs.
func (p Problem) String() string { return problems[p] }

// DocumentError is why and where a document was refused. Failures of the underlying reader (network, disk) are no
// DocumentErrors; they come wrapped, for errors.Is and errors.As.
type DocumentError struct {
	Problem Problem
	Offset  int64 // byte in the document, after inflating
	Detail  string
	cause   error
}

// CausePage is the cause of a document that is an HTML page.
const CausePage = "html-page"

const pageDetail = "an HTML page in place of a ResourceSync document"

// Cause is in a stable word what a document is in place of one, "" where no word stands for it.
func (e *DocumentError) Cause() string {
	if e.Detail == pageDetail {
		return CausePage
	}
	return ""
}

func (e *DocumentError) Error() string {
	return fmt.Sprintf("refused document (%s at byte %d): %s", e.Problem, e.Offset, e.Detail)
}

// Unwrap is the cause of a Truncated document, or gzip's error.
func (e *DocumentError) Unwrap() error {
	if e.cause == nil && e.Problem == Truncated {
		return io.ErrUnexpectedEOF
	}
	return e.cause
}

// EntryError is why an entry was skipped.
type EntryError struct {
	Ordinal int64 // position in the document, from 0
	Offset  int64 // byte of its start tag
	Detail  string
}

func (e *EntryError) Error() string {
	return fmt.Sprintf("skipped entry %d (at byte %d): %s", e.Ordinal, e.Offset, e.Detail)
}
