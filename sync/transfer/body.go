package transfer

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"

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
