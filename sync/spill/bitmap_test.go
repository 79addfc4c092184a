package spill

import (
	"runtime"
	"testing"
)

// What is gone over page by page takes the room of a page, however much it is (P8). It measures all of the process, so
// it runs alone.
func TestBitmapPages(t *testing.T) {
	const ids, most = 1_000_000, 1000
	b := NewBitmap()
	for id := range int64(ids) {
		b.Add(3 * id)
	}
	var before, after runtime.MemStats
	left, pages := b.Clone(), 0
	runtime.ReadMemStats(&before)
	for page := range b.Pages(most) {
		if pages++; len(page) == 0 || len(page) > most {
			t.Fatalf("a page of %d", len(page))
		}
		for _, id := range page {
			left.Remove(id)
		}
	}
	runtime.ReadMemStats(&after)
	if left.Len != 0 || pages != ids/most {
		t.Errorf("%d pages, %d ids are in none", pages, left.Len)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("took %d bytes for pages of %d", took, most)
	}
	for range b.Pages(most) {
		break
	}
	for range NewBitmap().Pages(most) {
		t.Error("an empty page")
	}
}
