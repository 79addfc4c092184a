package fuzztest

import (
	"strings"
	"testing"
)

// TestBound: outside of a fuzzer the corpus passes with patience, and what is allocated is seen.
func TestBound(t *testing.T) {
	t.Parallel()
	Bound(t)
	if fuzzing() {
		t.Error("a plain test is taken for a fuzzer")
	}
	before := allocated()
	big := strings.Repeat("x", 8<<20)
	if got := allocated() - before; got < uint64(len(big)) {
		t.Errorf("%d bytes were seen of %d", got, len(big))
	}
}
