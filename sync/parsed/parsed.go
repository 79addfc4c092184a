// Package parsed reads documents, notifications and answers of a Source into the terms of rows. It knows nothing of
// state and fetching.
package parsed

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/merge"
)

// NoticeMost bounds the entries of a notification; a larger one is a hint to pull (F45).
const NoticeMost = 50_000

// Notice is the reading of one notification.
type Notice struct {
	Head    rsdoc.Head
	N       int
	Skipped int64 // unreadable entries
	Err     error // why it was not read to its end, without which its interval proves nothing
}

// Interval is what the notification covers, false without a usable interval (F39).
func (n *Notice) Interval() (store.Interval, bool) {
	iv := store.Interval{From: store.Micros(n.Head.From), Until: store.Micros(n.Head.Until)}
	return iv, n.Err == nil && coverage.Usable(iv)
}

// Usable: the root is a list of changes, never an index.
func (n *Notice) Usable() bool {
	switch n.Head.Kind {
	case rsdoc.KindUnknown, rsdoc.KindChangeNotification,
		rsdoc.KindChangeList: // as the sample of the old PuSH software says
		return n.Head.Shape == rsdoc.List
	}
	return false
}

// ReadNotice reads a body by entry. The error is that of each; the Notice has that of the body.
func ReadNotice(body []byte, kind rsdoc.Kind, each func(*rsdoc.Entry) error) (*Notice, error) {
	n := &Notice{}
	r, err := rsdoc.OpenBytes(body, rsdoc.Options{Assume: kind})
	var head *rsdoc.Head
	if err == nil {
		head, err = r.Head()
	}
	if err == nil {
		n.Head = *head
	}
	for err == nil {
		var e *rsdoc.Entry
		if e, err = r.Next(); err == nil && n.N == NoticeMost {
			err = fmt.Errorf("more than %d entries", NoticeMost)
		}
		if err == nil {
			n.N++
			if own := each(e); own != nil {
				return n, own
			}
		}
	}
	if errors.Is(err, io.EOF) && head != nil {
		n.Skipped, _ = r.Skipped()
		err = nil
	}
	n.Err = err
	return n, nil
}

// Assumed is the kind of a notification that does not say it.
func Assumed(k store.ChannelKind) rsdoc.Kind {
	if k == store.ChannelFramework {
		return rsdoc.KindFrameworkNotification
	}
	return rsdoc.KindChangeNotification
}

// NamesDocuments detects a Framework Notification.
func NamesDocuments(d *store.Delivery) bool {
	r, err := rsdoc.OpenBytes(d.Body, rsdoc.Options{Assume: Assumed(d.Kind)})
	if err != nil {
		return false
	}
	head, err := r.Head()
	return err == nil && head.Kind == rsdoc.KindFrameworkNotification
}

// Selection decides by their links which resources are mirrored.
type Selection struct {
	Collections []string // URIs that a collection link leads to; empty for any
	Metadata    string   // "only" or "without" what describes another resource; else all
}

// Digest names a selection; "" is everything.
func (s Selection) Digest() string {
	if s.Metadata != "only" && s.Metadata != "without" {
		s.Metadata = ""
	}
	if s.Metadata == "" && len(s.Collections) == 0 {
		return ""
	}
	parts := append(slices.Sorted(slices.Values(s.Collections)), s.Metadata)
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// leaves reports whether an entry is left out. One of a deletion carries no links.
func (s Selection) leaves(e *rsdoc.Entry) bool {
	collected, describes := len(s.Collections) == 0, false
	for i := range e.Links {
		l := &e.Links[i]
		describes = describes || strings.EqualFold(l.Rel, rsdoc.RelDescribes)
		collected = collected ||
			strings.EqualFold(l.Rel, rsdoc.RelCollection) && slices.Contains(s.Collections, l.Href)
	}
	return e.Change != rsdoc.ChangeDeleted &&
		(!collected || s.Metadata == "only" && !describes || s.Metadata == "without" && describes)
}

// Leaves reports whether a row with such links is left out. A full list of links may lack those that tell.
func (s Selection) Leaves(kept string) bool {
	var e rsdoc.Entry
	for _, l := range ParseLinks(kept) {
		e.Links = append(e.Links, rsdoc.Link{Rel: l.Rel, Href: l.Href})
	}
	return len(e.Links) < MaxLinks && s.leaves(&e)
}

// ContentOf is an entry's content as a want.
func (s Selection) ContentOf(e *rsdoc.Entry) merge.Candidate {
	return merge.Candidate{
		Digests: digestString(e.Digests), Length: e.Length, LastMod: store.Micros(e.LastMod),
		Type: e.Type, Links: linkString(e.Links), Left: s.leaves(e),
	}
}

// Change is an entry that waits for its place in time.
type Change struct {
	URI   string
	Cand  merge.Candidate
	Stamp merge.Stamp
	Fault bool // only its URI can be believed
	Over  bool // a newer one of its buffer overtakes it, and either leaves the selection
}

// ChangeOf is an entry of a document of changes.
func (s Selection) ChangeOf(e *rsdoc.Entry) Change {
	c, deleted := s.ContentOf(e), e.Change == rsdoc.ChangeDeleted
	if c.State = store.WantPresent; deleted || c.Left {
		c.State = store.WantAbsent
	}
	return Change{URI: e.Loc, Cand: c, Fault: e.Fault != "", Stamp: merge.Stamp{
		Datetime: store.Micros(e.Datetime), LastMod: store.Micros(e.LastMod), Deleted: deleted, Ordinal: e.Ordinal,
	}}
}

// Place gives changes their versions. Those overtaken do not count where the selection matters: newest first, a
// resource that left would find no row, and then come again.
func Place(p *merge.Placer, changes []Change) {
	stamps := make([]merge.Stamp, len(changes))
	for i := range changes {
		stamps[i] = changes[i].Stamp
	}
	left := false
	for i, version := range p.Place(stamps) {
		changes[i].Cand.Version = version
		left = left || changes[i].Cand.Left
	}
	if !left {
		return
	}
	newest := map[string]*Change{}
	for i := range changes {
		c := &changes[i]
		if n := newest[c.URI]; !c.Fault && (n == nil || merge.Relate(n.Cand.Version, c.Cand.Version) == merge.Older) {
			newest[c.URI] = c
		}
	}
	for i := range changes {
		c := &changes[i]
		n := newest[c.URI]
		c.Over = n != nil && (n.Cand.Left || c.Cand.Left) && merge.Relate(n.Cand.Version, c.Cand.Version) == merge.Newer
	}
}

// Announced is an entry as rule 3 compares it (coverage.md 4).
func Announced(e *rsdoc.Entry) coverage.Announced {
	return coverage.Announced{
		URI: e.Loc, Change: e.Change.String(), Datetime: store.Micros(e.Datetime), Digests: digestString(e.Digests),
	}
}

func digestString(ds []rsdoc.Digest) string {
	parts := make([]string, 0, 4) // on the stack
	for i := range ds {
		parts = append(parts, ds[i].String())
	}
	return strings.Join(parts, " ")
}

// Strongest is the first digest of a row, which decides.
func Strongest(digests string) (rsdoc.Digest, bool) {
	first, _, _ := strings.Cut(digests, " ")
	d, err := rsdoc.ParseDigest(first)
	return d, err == nil
}

// Link is what a row keeps of a link: Hash to Joined only of a patch.
type Link struct {
	Rel      string `json:"rel"`
	Href     string `json:"href"`
	Pri      int    `json:"pri,omitempty"`
	Type     string `json:"type,omitempty"`
	Profile  string `json:"profile,omitempty"`
	Modified string `json:"modified,omitempty"` // RFC 3339
	Hash     string `json:"hash,omitempty"`     // as in store.Want.Digests
	Length   int64  `json:"length,omitempty"`   // 0 where absent
	Path     string `json:"path,omitempty"`
	Joined   bool   `json:"joined,omitempty"` // a patch of a version that never was in the mirror
}

// MaxLinks bounds the links of one entry (P8).
const MaxLinks = 16

func linkString(links []rsdoc.Link) string {
	out := make([]Link, 0, min(len(links), MaxLinks))
	for _, l := range links[:min(len(links), MaxLinks)] {
		k := Link{Rel: l.Rel, Href: l.Href, Type: l.Type, Profile: l.Profile, Modified: l.Modified.String()}
		if l.Pri < 999_999 {
			k.Pri = l.Pri
		}
		if l.Rel == rsdoc.RelPatch {
			k.Hash, k.Length, k.Path = digestString(l.Digests), max(l.Length, 0), l.Path
		}
		out = append(out, k)
	}
	return JoinLinks(out)
}

// JoinLinks writes links as a row keeps them.
func JoinLinks(out []Link) string {
	if len(out) == 0 {
		return ""
	}
	b, _ := json.Marshal(out) // of strings and numbers, which never fail
	return string(b)
}

// ParseLinks are the links that a row keeps.
func ParseLinks(kept string) (links []Link) {
	if kept == "" || json.Unmarshal([]byte(kept), &links) != nil {
		return nil
	}
	return links
}

// Unpatched marks the patches among the links of an update that is joined with the one before: they need its result.
func Unpatched(kept string) string {
	if !strings.Contains(kept, rsdoc.RelPatch) {
		return kept
	}
	links := ParseLinks(kept)
	for i := range links {
		links[i].Joined = links[i].Rel == rsdoc.RelPatch
	}
	return JoinLinks(links)
}

// HTTPTime reads an HTTP date as an instant.
func HTTPTime(s string) (store.Micros, bool) {
	t, err := http.ParseTime(s)
	if err != nil {
		return store.NoTime, false
	}
	return store.Micros(t.UnixMicro()), true
}

// WeakFor is the age of a usable Last-Modified.
const WeakFor store.Micros = 2 * 1e6

// Lasting are the validators for a conditional request. A change in the second of Last-Modified would get 304 for ever.
func Lasting(etag, lastModified string, date store.Micros) (string, string) {
	if at, ok := HTTPTime(lastModified); ok && (!date.Known() || date-at < WeakFor) {
		return "", ""
	}
	return etag, lastModified
}
