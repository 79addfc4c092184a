package spill

import (
	"iter"
	"math/bits"
)

// Bitmap is a set of row ids, one bit each.
type Bitmap struct {
	pages map[int64]*[512]uint64
	Len   int64
}

func NewBitmap() *Bitmap { return &Bitmap{pages: map[int64]*[512]uint64{}} }

func (b *Bitmap) Add(id int64) {
	p := b.pages[id>>15]
	if p == nil {
		p = new([512]uint64)
		b.pages[id>>15] = p
	}
	if word, bit := &p[(id>>6)&511], uint64(1)<<(id&63); *word&bit == 0 {
		*word |= bit
		b.Len++
	}
}

func (b *Bitmap) Remove(id int64) {
	if b.Has(id) {
		b.pages[id>>15][(id>>6)&511] &^= 1 << (id & 63)
		b.Len--
	}
}

func (b *Bitmap) Has(id int64) bool {
	p := b.pages[id>>15]
	return p != nil && p[(id>>6)&511]&(1<<(id&63)) != 0
}

// Clone is a copy to go over while others change b.
func (b *Bitmap) Clone() *Bitmap {
	c := &Bitmap{pages: make(map[int64]*[512]uint64, len(b.pages)), Len: b.Len}
	for page, words := range b.pages {
		copied := *words
		c.pages[page] = &copied
	}
	return c
}

// All goes over the ids, in no order.
func (b *Bitmap) All() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for page, words := range b.pages {
			for i, word := range words {
				for ; word != 0; word &= word - 1 {
					if !yield(page<<15 | int64(i)<<6 | int64(bits.TrailingZeros64(word))) {
						return
					}
				}
			}
		}
	}
}

// Pages goes over the ids in pages of up to n, each of which lasts until the next.
func (b *Bitmap) Pages(n int) iter.Seq[[]int64] {
	return func(yield func([]int64) bool) {
		page, left := make([]int64, 0, n), b.Len
		for id := range b.All() {
			page = append(page, id)
			if left--; left > 0 && len(page) < n {
				continue
			}
			if !yield(page) {
				return
			}
			page = page[:0]
		}
	}
}
