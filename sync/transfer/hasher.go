package transfer

import (
	"hash"
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// apartFrom is the length from which hashing in a second goroutine pays.
	apartFrom  = 1 << 20
	blockSize  = 128 << 10
	blockCount = 4
)

// hasher hashes one large body beside reading and writing. Several at once keep the cores busy without it.
type hasher struct {
	taken atomic.Bool

	sums    []hash.Hash
	block   []byte
	full    chan []byte
	empty   chan []byte
	running sync.WaitGroup
}

func (h *hasher) begin(sums []hash.Hash) bool {
	if h.taken.Load() || runtime.GOMAXPROCS(0) < 2 || !h.taken.CompareAndSwap(false, true) {
		return false
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

// write copies p, which the caller may reuse.
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

func (h *hasher) end() {
	h.full <- h.block
	close(h.full)
	h.running.Wait()
	h.sums, h.block, h.full, h.empty = nil, nil, nil, nil
	h.taken.Store(false)
}
