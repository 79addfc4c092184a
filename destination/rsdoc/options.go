package rsdoc

import (
	"cmp"
	"net/url"
)

// Limits bound what a document may cost (P8). A zero field means its default.
type Limits struct {
	// Bytes is the size of the whole document after inflating.
	Bytes int64
	// Depth is how deep elements may nest.
	Depth int
	// Attributes is how many a tag may have, and how many namespaces may be in force.
	Attributes int
	// Text is the most bytes of an attribute's value and of the text of loc or lastmod. A tag, and the links of one
	// owner together, may take four times as much.
	Text int
}

const (
	maxLinks    = 1_000 // rs:ln of one entry, or of the root
	maxWarnings = 8
)

// withDefaults is generous in bytes, because real Sources exceed the 50 MB of the Sitemap protocol [digest 15].
func (l Limits) withDefaults() Limits {
	return Limits{
		Bytes: cmp.Or(l.Bytes, 8<<30), Depth: cmp.Or(l.Depth, 32), Attributes: cmp.Or(l.Attributes, 64),
		Text: cmp.Or(l.Text, 64<<10),
	}
}

func (l Limits) perTag() int { return 4 * max(l.Text, 1<<10) }

// Options of a reader. The zero value reads with the default limits.
type Options struct {
	// Base resolves relative references: the document's final URI [digest 6]. Without it they are bad.
	Base   *url.URL
	Limits Limits
	// Assume is the kind of a document whose root does not state one [digest 18].
	Assume Kind
	// Faulty has Next return unusable entries whose Loc can be read (Entry.Fault).
	Faulty bool
}
