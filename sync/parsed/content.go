package parsed

import (
	"strings"

	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/merge"
)

// ContentOf is an entry's content as a want.
func ContentOf(e *rsdoc.Entry) merge.Candidate {
	return merge.Candidate{
		Digests: digestString(e.Digests), Length: e.Length, LastMod: store.Micros(e.LastMod),
		Type: e.Type, Links: linkString(e.Links),
	}
}

// Change is an entry that waits for its place in time.
type Change struct {
	URI   string
	Cand  merge.Candidate
	Stamp merge.Stamp
	Fault bool // only its URI can be believed
}

// ChangeOf is an entry of a document of changes.
func ChangeOf(e *rsdoc.Entry) Change {
	c := ContentOf(e)
	c.State = store.WantPresent
	if e.Change == rsdoc.ChangeDeleted {
		c.State = store.WantAbsent
	}
	return Change{URI: e.Loc, Cand: c, Fault: e.Fault != "", Stamp: merge.Stamp{
		Datetime: store.Micros(e.Datetime), LastMod: store.Micros(e.LastMod),
		Deleted: c.State == store.WantAbsent, Ordinal: e.Ordinal,
	}}
}

// Announced is an entry as rule 3 compares it (coverage.md 4).
func Announced(e *rsdoc.Entry) coverage.Announced {
	return coverage.Announced{
		URI: e.Loc, Change: e.Change.String(), Datetime: store.Micros(e.Datetime), Digests: digestString(e.Digests),
	}
}

func digestString(ds []rsdoc.Digest) string {
	switch len(ds) {
	case 0:
		return ""
	case 1:
		return ds[0].String()
	}
	parts := make([]string, len(ds))
	for i := range ds {
		parts[i] = ds[i].String()
	}
	return strings.Join(parts, " ")
}

// Strongest is the first digest of a row, which decides.
func Strongest(digests string) (rsdoc.Digest, bool) {
	first, _, _ := strings.Cut(digests, " ")
	if first == "" {
		return rsdoc.Digest{}, false
	}
	d, err := rsdoc.ParseDigest(first)
	return d, err == nil
}
