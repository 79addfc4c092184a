package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"runtime"
	"sync"
	"sync/atomic"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/parsed"
)

// body is the Sink of one download.
type body struct {
	stage  blob.Stage
	own    hash.Hash // SHA-256
	other  hash.Hash // the strongest offered digest, unless SHA-256
	digest rsdoc.Digest
	n      int64
	hasher *hasher // for large bodies, may be nil
	away   bool
	room   [64]byte // avoids an allocation for each sum
}

// receive resets the worker's body, whose last download must be done.
func (w *worker) receive(stage blob.Stage, digests string) *body {
	own := w.body.own
	if own == nil {
		own = sha256.New()
	}
	own.Reset()
	b := &w.body
	*b = body{stage: stage, own: own}
	if d, ok := parsed.Strongest(digests); ok {
		b.digest = d
		if d.Alg != rsdoc.SHA256 {
			b.other = d.New()
		}
	}
	return b
}

func (b *body) Write(p []byte) (int, error) {
	n, err := b.stage.Write(p)
	b.sumUp(p[:n])
	b.n += int64(n)
	return n, err
}

func (b *body) sumUp(p []byte) {
	if !b.away && b.hasher != nil && b.n >= apartFrom {
		sums := []hash.Hash{b.own}
		if b.other != nil {
			sums = append(sums, b.other)
		}
		b.away = b.hasher.begin(sums)
	}
	if b.away {
		b.hasher.write(p)
		return
	}
	b.own.Write(p)
	if b.other != nil {
		b.other.Write(p)
	}
}

// arrived must end each download, or the sums do not hold.
func (b *body) arrived() {
	if b.away {
		b.hasher.end()
		b.away = false
	}
}

// Reset implements fetch.Sink.
func (b *body) Reset() error {
	b.arrived()
	b.own.Reset()
	if b.other != nil {
		b.other.Reset()
	}
	b.n = 0
	return b.stage.Reset()
}

func (b *body) sum() [32]byte { return [32]byte(b.own.Sum(b.room[:0])) }

// check compares length and digest (P2, F48 to F50, F55).
func (b *body) check(w *store.Want, res *fetch.Result) *failure {
	if b.digest.Alg != rsdoc.None {
		h := b.other
		if h == nil {
			h = b.own
		}
		if got := h.Sum(b.room[:0]); !bytes.Equal(b.digest.Bytes(), got) {
			return &failure{class: ClassMismatch, stale: true, wrong: true,
				reason: fmt.Sprintf("the body's %s is %x (%d bytes), listed is %s", b.digest.Alg, got, b.n, b.digest)}
		}
	}
	if w.State != store.WantAsk && w.Length >= 0 && w.Length != b.n {
		return &failure{class: ClassMismatch, stale: true, wrong: true,
			reason: fmt.Sprintf("the body has %d bytes, listed are %d", b.n, w.Length)}
	}
	if b.digest.Alg == rsdoc.None && w.Length < 0 && res.CloseDelimited {
		return &failure{class: classUnproven}
	}
	return nil
}

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

// ClassNoContent is the class of inline resources whose bytes only a document can bring again.
const ClassNoContent = "no-content"

// ClassNoRoom is the class of files without room, ClassMismatch of bodies that are not as listed.
const ClassNoRoom, ClassMismatch = "no-room", "mismatch"

func (r *Reconciler) inline(ctx context.Context, w *worker, o *outcome) {
	content, err := r.s.Content(ctx, o.res)
	if errors.Is(err, store.ErrNotFound) {
		o.fail(failure{class: ClassNoContent, stale: true, lasts: true,
			reason: "its bytes come with its feed, and are not at hand: the next pull looks for it there"})
		return
	}
	if err != nil {
		o.failWith(err)
		return
	}
	if most := r.s.Means.MaxResource; most > 0 && int64(len(content)) > most {
		o.fail(failure{class: fetch.TooLarge.String(), lasts: true,
			reason: fmt.Sprintf("%d bytes are more than max_resource, %d", len(content), most)})
		return
	}
	stage, err := r.s.Mirror.NewStage(ctx)
	if err != nil {
		o.failWith(err)
		return
	}
	o.stage = stage
	body := w.receive(stage, o.want.Digests)
	if _, err := body.Write(content); err != nil {
		o.discard()
		o.failWith(err)
		return
	}
	res := fetch.Result{}
	if f := body.check(o.want, &res); f != nil { // the bytes may belong to a newer want
		o.discard()
		o.fail(*f)
		return
	}
	res.Type = o.want.Type
	r.accept(o, body, &res)
	if err := stage.Close(); err != nil {
		o.discard()
		o.failWith(err)
	}
}

func (o *outcome) settled(rc *store.ResourceChange) {
	if o.want != nil && o.want.Inline && rc.Work != nil && rc.Work.Action != store.ActionFetch {
		rc.DropContent = true
	}
}
