package transfer

import (
	"hash"
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// apartFrom is how much of a body is hashed before the rest may be hashed apart: shorter ones are done before that pays.
	apartFrom  = 1 << 20
	blockSize  = 128 << 10
	blockCount = 4
)

// hasher is where a large body that comes alone is hashed: in a goroutine of its own, beside the reading and writing. In turn
// with them it took half again as long (1 GiB over loopback). Where several large ones come at once the cores have enough to
// do, and to hand bytes over would only cost; so one at a time is.
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
		return false // the first look spares all others the lock of the second
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

// write copies p, which is the caller's again when it returns.
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

// end returns when all that was written is hashed, and gives h back.
func (h *hasher) end() {
	h.full <- h.block
	close(h.full)
	h.running.Wait()
	h.sums, h.block, h.full, h.empty = nil, nil, nil, nil // half a MiB
	h.taken.Store(false)
}
