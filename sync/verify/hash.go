package verify

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"

	"resyncd/store/blob"
)

// Hash returns SHA-256 and length of a mirror file, and the sum of other if given.
func Hash(
	ctx context.Context, m blob.Mirror, key string, other hash.Hash,
) (sum [32]byte, n int64, also []byte, err error) {
	f, info, err := m.Open(ctx, key)
	if err != nil {
		return sum, 0, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	own := sha256.New()
	w := io.Writer(own)
	if other != nil {
		w = io.MultiWriter(own, other)
	}
	// No larger than the file: clearing 128 KiB for each small one took most of the time.
	buf := make([]byte, min(max(info.Length, 512), 128<<10))
	for err == nil && ctx.Err() == nil {
		var k int
		k, err = f.Read(buf)
		n += int64(k)
		_, _ = w.Write(buf[:k]) // hashes never fail
	}
	if !errors.Is(err, io.EOF) {
		return sum, n, nil, errors.Join(err, ctx.Err())
	}
	own.Sum(sum[:0])
	if other != nil {
		also = other.Sum(nil)
	}
	return sum, n, also, nil
}
