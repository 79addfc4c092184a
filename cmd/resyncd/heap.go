package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// firstHeap is how large the heap is when it is first collected, in percent of the runtime's usual 4 MiB.
const firstHeap = 400

// collectLater has the first collection wait until the heap is as large as it is in a catch-up of many resources anyway, whose
// peak stays the same: one of 500 resources was collected three times on its way there, for a tenth of its processor time. From
// then on the usual rule holds. Where GOGC is set that is the operator's choice.
func collectLater() {
	if os.Getenv("GOGC") != "" {
		return
	}
	usual := debug.SetGCPercent(firstHeap)
	runtime.AddCleanup(new([64]byte), func(percent int) { debug.SetGCPercent(percent) }, usual)
}
