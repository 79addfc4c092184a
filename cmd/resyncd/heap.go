package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// heapFloor is how large the heap grows before it is collected: a first catch-up grows so far anyway, while a list
	// is planned, and collecting before that costs time and saves no memory.
	heapFloor = 12 << 20
	// heapFirst is where the runtime collects first where the growth is 100 %; with another one, in proportion.
	heapFirst = 4 << 20
)

// floorHeap keeps to the usual growth of 100 %, or to what it takes to reach heapFloor. Where GOGC is set, that is the
// operator's choice.
func floorHeap() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(growth(0))
	afterCollection([]metrics.Sample{{Name: "/gc/heap/live:bytes"}})
}

// growth is by how many percent a heap of so many live bytes may grow until it is collected.
func growth(live uint64) int {
	const most = 100 * heapFloor / heapFirst
	if live <= heapFirst/2 {
		return most
	}
	return min(max(100, int(100*heapFloor/live)-100), most)
}

// afterCollection sets the growth anew after each collection: one has been when an object that nobody refers to is
// gone.
func afterCollection(heap []metrics.Sample) {
	runtime.AddCleanup(new([64]byte), func(heap []metrics.Sample) {
		metrics.Read(heap)
		debug.SetGCPercent(growth(heap[0].Value.Uint64()))
		afterCollection(heap)
	}, heap)
}
