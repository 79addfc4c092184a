package transfer

import (
	"hash"
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// apartFrom is how much of a body is hashed before a second goroutine may take over: that does not pay for shorter
	// bodies.
	apartFrom  = 1 << 20
	blockSize  = 128 << 10
	blockCount = 4
)

// hasher hashes a large body in a goroutine of its own, beside reading and writing. It takes one body at a time:
// several at once keep the cores busy anyway.
type hasher struct {
	taken atomic.Bool

	sums    []hash.Hash
	block   []byte      // being filled
	full    chan []byte // to be hashed
	empty   chan []byte
	running sync.WaitGroup
}

// begin takes h for the hashes of a body, unless another one has it.
func (h *hasher) begin(sums []hash.Hash) bool {
	if h.taken.Load() || runtime.GOMAXPROCS(0) < 2 || !h.taken.CompareAndSwap(false, true) {
		return false // the plain load first spares other bodies the contention of the swap
	}
	h.sums, h.full, h.empty = sums, make(chan []byte, blockCount), make(chan []byte, blockCount)
	for range blockCount {
		h.empty <- make([]byte, 0, blockSize)
	}
	h.block = <-h.empty
	h.running.Go(func() {
		for b := range h.full {
			for _, sum := range h.sums {
				sum.Write(b)
			}
			h.empty <- b[:0]
		}
	})
	return true
}

// write copies p, so that the caller may reuse p.
func (h *hasher) write(p []byte) {
	for len(p) > 0 {
		n := copy(h.block[len(h.block):cap(h.block)], p)
		h.block, p = h.block[:len(h.block)+n], p[n:]
		if len(h.block) == cap(h.block) {
			h.full <- h.block
			h.block = <-h.empty
		}
	}
}

// end waits until all written bytes are hashed, and frees h.
func (h *hasher) end() {
	h.full <- h.block
	close(h.full)
	h.running.Wait()
	h.sums, h.block, h.full, h.empty = nil, nil, nil, nil // frees half a MiB
	h.taken.Store(false)
}
