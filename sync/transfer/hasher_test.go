package transfer

import (
	"crypto/md5"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"resyncd/store/blob"
)

// voidStage takes bytes and keeps none.
type voidStage struct{ blob.Stage }

func (voidStage) Write(p []byte) (int, error) { return len(p), nil }
func (voidStage) Reset() error                { return nil }

// fed writes content in pieces as a download does, into the same buffer again and again.
func fed(b *body, content []byte) {
	buf := make([]byte, 64<<10)
	for len(content) > 0 {
		n := copy(buf, content)
		_, _ = b.Write(buf[:n])
		clear(buf)
		content = content[n:]
	}
}

func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = io.ReadFull(rand.NewChaCha8([32]byte{byte(n)}), b)
	return b
}

// TestHasher: the sums of a body are the same wherever it is hashed: short, long, as long as blocks are, begun anew in its midst,
// with two algorithms, one beside others, and used again.
func TestHasher(t *testing.T) {
	t.Parallel()
	var shared hasher
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			var w worker
			for _, n := range []int{0, 1, apartFrom - 1, apartFrom, apartFrom + 1, apartFrom + blockSize, apartFrom + 7*blockSize + 5, 4*apartFrom + 3} {
				for _, digests := range []string{"", "md5:00000000000000000000000000000000"} {
					content := noise(n)
					b := w.receive(voidStage{}, digests)
					b.hasher = &shared
					fed(b, noise(2*n))
					_ = b.Reset()
					fed(b, content)
					b.arrived()
					b.arrived()
					if b.away || b.sum() != sha256.Sum256(content) || b.n != int64(n) {
						t.Errorf("%d bytes, %q: sum %x, length %d", n, digests, b.sum(), b.n)
					}
					if want := md5.Sum(content); b.other != nil && string(b.other.Sum(nil)) != string(want[:]) {
						t.Errorf("%d bytes: md5 %x, want %x", n, b.other.Sum(nil), want)
					}
				}
			}
		})
	}
	all.Wait()
	if shared.taken.Load() {
		t.Error("nobody gave it back")
	}
}

// TestHasherIsTaken: a large body that comes alone is hashed apart, a second one beside it is not.
func TestHasherIsTaken(t *testing.T) {
	t.Parallel()
	var shared hasher
	var one, two worker
	first, second := one.receive(voidStage{}, ""), two.receive(voidStage{}, "")
	first.hasher, second.hasher = &shared, &shared
	fed(first, noise(2*apartFrom))
	fed(second, noise(2*apartFrom))
	if !first.away || second.away {
		t.Errorf("apart: first %v, second %v", first.away, second.away)
	}
	first.arrived()
	fed(second, noise(1))
	if !second.away {
		t.Error("the second is not hashed apart when it is the only one")
	}
	second.arrived()
	if want := sha256.Sum256(append(noise(2*apartFrom), noise(1)...)); second.sum() != want {
		t.Errorf("sum %x, want %x", second.sum(), want)
	}
}
