// Package fuzztest knows what one input may cost a parser (P8), for fuzz targets of all packages. It refuses to know
// what any parser is for.
package fuzztest

import (
	"flag"
	"runtime/metrics"
	"testing"
	"time"
)

const (
	longest = time.Second
	most    = 256 << 20
	// patience is for plain tests of the corpus, which run beside all others.
	patience = 10
)

// Bound holds one input of a fuzz target to 1 s and 256 MiB. An input that never ends ends the process, which the
// fuzzer reports.
func Bound(t testing.TB) {
	t.Helper()
	limit := longest
	if !fuzzing() {
		limit *= patience
	}
	began, before := time.Now(), allocated()
	watchdog := time.AfterFunc(10*limit, func() { panic("the input of " + t.Name() + " never ends") })
	t.Cleanup(func() {
		watchdog.Stop()
		if took := time.Since(began); took > limit {
			t.Errorf("one input took %s, more than %s", took, limit)
		}
		// Others allocate too.
		if got := allocated() - before; fuzzing() && got > most {
			t.Errorf("one input took %d MiB, more than %d", got>>20, most>>20)
		}
	})
}

func fuzzing() bool {
	f := flag.Lookup("test.fuzzworker")
	return f != nil && f.Value.String() == "true"
}

func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
