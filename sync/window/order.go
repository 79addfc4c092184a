package window

import (
	"slices"

	"resyncd/store"
)

// Order is in which order the pages of a feed stand.
type Order string

// Pages that are not newest first have to be read all at each pull: what is new may be on any.
const (
	OrderUnknown Order = ""
	NewestFirst  Order = "newest-first"
	NoOrder      Order = "none"
)

// PageOrder finds out whether pages are newest first: entries mostly grow older within each, and next to none of one is
// newer than the older quarter of the page before it, where a pin may stand.
type PageOrder struct {
	page     []store.Micros // in document order
	before   store.Micros   // where the older quarter of the page before begins, NoTime without dates
	turned   bool
	up, down int // neighbours of which the second is newer, or older
	Found    Order
}

// Meet notes an entry of the page.
func (o *PageOrder) Meet(when store.Micros) { o.page = append(o.page, when) }

// Newest is the instant of the newest entry of the page, NoTime where none has one.
func (o *PageOrder) Newest() store.Micros {
	if len(o.page) == 0 {
		return store.NoTime
	}
	return slices.Max(o.page)
}

// Turn ends a page.
func (o *PageOrder) Turn() {
	newer := 0
	for i, when := range o.page {
		if !when.Known() || !o.before.Known() || when > o.before {
			newer++
		}
		switch {
		case i == 0:
		case when > o.page[i-1]:
			o.up++
		case when < o.page[i-1]:
			o.down++
		}
	}
	if o.turned && o.Found != NoOrder && len(o.page) > 0 {
		if o.Found = NewestFirst; newer > len(o.page)/10 || o.up >= o.down {
			o.Found = NoOrder
		}
	}
	slices.Sort(o.page)
	if o.turned, o.before = true, store.NoTime; len(o.page) > 0 {
		o.before = o.page[len(o.page)/4]
	}
	o.page = o.page[:0]
}
