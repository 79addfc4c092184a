package window

import (
	"slices"

	"resyncd/store"
)

// Order is the order of a feed's pages.
type Order string

// The orders: without NewestFirst every pull reads all pages.
const (
	OrderUnknown Order = ""
	NewestFirst  Order = "newest-first"
	NoOrder      Order = "none"
)

// PageOrder tests whether pages are newest first: few entries may be newer than the older quarter of the page before.
type PageOrder struct {
	page     []store.Micros
	before   store.Micros // start of the last page's older quarter
	turned   bool
	up, down int
	Found    Order
}

// Meet notes an entry.
func (o *PageOrder) Meet(when store.Micros) { o.page = append(o.page, when) }

// Newest is the newest instant of the page, or NoTime.
func (o *PageOrder) Newest() store.Micros {
	if len(o.page) == 0 {
		return store.NoTime
	}
	return slices.Max(o.page)
}

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
