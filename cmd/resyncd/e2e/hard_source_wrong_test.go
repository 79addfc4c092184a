package e2e_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// What a test changes in documents.
const (
	resourceLists = "/.resourcesync/resourcelist"
	changeLists   = "/.resourcesync/changelist"
	// capabilityList names them.
	capabilityList = "/.resourcesync/capabilitylist.xml"
)

// wrongDocuments are ways for a document to be wrong in itself.
func wrongDocuments() []misdeed {
	return []misdeed{
		{"garbled", document, func(e *evil) bool {
			half := len(e.honest.body) / 2
			return e.change(slices.Concat(e.honest.body[:half], []byte("<<&\x00>"), e.honest.body[half:]))
		}},
		{"of another kind", document, func(e *evil) bool {
			other := changeLists + ".xml"
			if strings.HasPrefix(e.r.URL.Path, changeLists) {
				other = resourceLists + ".xml"
			}
			r := e.r.Clone(e.r.Context())
			r.URL.Path, r.URL.RawPath = other, ""
			return e.change(e.m.answer(r).body)
		}},
		{"without a namespace", steady, func(e *evil) bool {
			return e.replace(`http://www.openarchives.org/rs/terms/`, "http://example.org/terms/")
		}},
		{"without its entries", steady, func(e *evil) bool { return e.thin(func(int) bool { return false }) }},
		{"without half of its entries", steady, func(e *evil) bool { return e.thin(func(i int) bool { return i%2 == 0 }) }},
		{"with wrong hashes", steady, func(e *evil) bool {
			return e.rewrite(regexp.MustCompile(`sha-256:[0-9a-f]{64}`), func(hash string) string {
				return hash[:8] + strings.Repeat("0", 60) + hash[len(hash)-4:]
			})
		}},
		{"with wrong lengths", steady, func(e *evil) bool {
			return e.rewrite(regexp.MustCompile(`length="[0-9]+"`), func(length string) string { return length[:8] + "1" + length[8:] })
		}},
		{"with entries out of scope", steady, func(e *evil) bool {
			return e.replace("<loc>"+e.m.honest.Load().URI(""), "<loc>"+e.m.elsewhere.URL+"/")
		}},
	}
}

// unmark takes away what a list could be asked for conditionally by: whoever keeps a list and its lie under the validator of
// the truth could not be undeceived. (A Capability List that leads nowhere gives itself away.)
func (e *evil) unmark() {
	if e.r.URL.Path != capabilityList {
		e.honest.header.Del("ETag")
		e.honest.header.Del("Last-Modified")
	}
}

// rewrite changes what matches, and is false where nothing does.
func (e *evil) rewrite(what *regexp.Regexp, how func(string) string) bool {
	body := what.ReplaceAllStringFunc(string(e.honest.body), how)
	e.unmark()
	return body != string(e.honest.body) && e.change([]byte(body))
}

func (e *evil) replace(old, new string) bool {
	return e.rewrite(regexp.MustCompile(regexp.QuoteMeta(old)), func(string) string { return new })
}

// thin leaves out entries. A list that says until when it tells everything is let be: that would be a lie which nobody can
// see through, as documents are not signed.
func (e *evil) thin(keep func(i int) bool) bool {
	i := -1
	entry := regexp.MustCompile(`(?s)<(url|sitemap)>.*?</(url|sitemap)>`)
	body := entry.ReplaceAllFunc(e.honest.body, func(one []byte) []byte {
		if i++; keep(i) {
			return one
		}
		return nil
	})
	e.unmark()
	if i < 0 || bytes.Contains(body, []byte(` until="`)) {
		return false
	}
	return e.change(body)
}
