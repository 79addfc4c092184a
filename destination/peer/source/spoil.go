package source

import (
	"slices"

	"resyncd/destination/rsdoc"
)

// forged says in an honest interval that everything was deleted.
func forged(b batch) batch {
	b.changes = slices.Clone(b.changes)
	for i := range b.changes {
		b.changes[i].kind = rsdoc.ChangeDeleted
	}
	return b
}

// spoiled is a document of the feed as its faults leave it: whether there is one, and what it holds.
func (f *webFeed) spoiled(p leaf, there bool) (leaf, bool) {
	if f.faults.NoArchive {
		there, p.prev = there && p.archive == 0, 0
	}
	if n := f.faults.Limit; n > 0 && p.archive == 0 {
		p.from = max(p.from, p.to-n)
	}
	return p, there
}
