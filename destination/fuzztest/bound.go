// Package fuzztest knows what one input may cost a parser (P8), for fuzz targets of all packages. It refuses to know what
// any parser is for.
package fuzztest

import (
	"flag"
	"runtime/metrics"
	"testing"
	"time"
)

// The bounds of one input. Memory is what is allocated in all, of which what is held at a time can only be a part.
const (
	longest = time.Second
	most    = 256 << 20
	// patience is how many times longer an input may take where nobody fuzzes: the corpus runs as a plain test then,
	// beside all others.
	patience = 10
)

// Bound holds the rest of the test, one input of a fuzz target, to its bounds: at most 1 s and 256 MiB. A target calls it
// first. An input that never comes to an end ends the process, which the fuzzer reports with the input.
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
		// Beside other tests, what they allocate would be counted too.
		if got := allocated() - before; fuzzing() && got > most {
			t.Errorf("one input took %d MiB, more than %d", got>>20, most>>20)
		}
	})
}

// fuzzing reports whether this process tries inputs, as a worker of `go test -fuzz`.
func fuzzing() bool {
	f := flag.Lookup("test.fuzzworker")
	return f != nil && f.Value.String() == "true"
}

// allocated is how many bytes the process has allocated since it began.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
