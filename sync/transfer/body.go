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
	room   [64]byte // avoids an allocation for each sum
}

func newBody(stage blob.Stage, digests string) body {
	b := body{stage: stage, own: sha256.New()}
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
	b.own.Write(p[:n])
	if b.other != nil {
		b.other.Write(p[:n])
	}
	b.n += int64(n)
	return n, err
}

// Reset implements fetch.Sink.
func (b *body) Reset() error {
	b.own.Reset()
	if b.other != nil {
		b.other.Reset()
	}
	b.n = 0
	return b.stage.Reset()
}

func (b *body) sum() [32]byte { return [32]byte(b.own.Sum(b.room[:0])) }

// check compares length and digest (P2, F48 to F50, F55). proven is false where nothing tells that the body is whole.
func (b *body) check(w *store.Want, res *fetch.Result) (proven bool, err error) {
	listed := b.digest.Alg != rsdoc.None
	if listed {
		h := b.other
		if h == nil {
			h = b.own
		}
		if got := h.Sum(b.room[:0]); !bytes.Equal(b.digest.Bytes(), got) {
			return false, mismatch("the body's %s is %x (%d bytes), listed is %s", b.digest.Alg, got, b.n, b.digest)
		}
	}
	if w.State != store.WantAsk && w.Length >= 0 && w.Length != b.n {
		return false, mismatch("the body has %d bytes, listed are %d", b.n, w.Length)
	}
	return listed || w.Length >= 0 || !res.CloseDelimited, nil
}

func mismatch(format string, args ...any) error {
	return &failure{class: ClassMismatch, stale: true, wrong: true, reason: fmt.Sprintf(format, args...)}
}
