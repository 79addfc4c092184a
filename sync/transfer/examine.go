package transfer

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"resyncd/store"
	"resyncd/store/blob"
)

// examinePage is how many resources are read at a time.
const examinePage = 1000

// Examine looks at the resources of a query in parallel, and hands over findings page by page.
func Examine[T any](
	ctx context.Context, st store.Resources, q store.ScanQuery, look func(context.Context, *store.Resource) (*T, error),
	page func(looked int, found []*T) error,
) error {
	q.Limit = examinePage
	rs, err := st.Scan(ctx, q)
	for err == nil && len(rs) > 0 {
		q.After = rs[len(rs)-1].ID
		var next []*store.Resource
		found := make([]*T, len(rs))
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(1 + max(runtime.GOMAXPROCS(0), 2))
		g.Go(func() (err error) { // it takes as long as the looks
			next, err = st.Scan(gctx, q)
			return err
		})
		for i, r := range rs {
			g.Go(func() (err error) {
				found[i], err = look(gctx, r)
				return err
			})
		}
		if err = g.Wait(); err == nil {
			err = page(len(rs), slices.DeleteFunc(found, func(f *T) bool { return f == nil }))
		}
		rs = next
	}
	return err
}

// HashFile returns SHA-256 and length of a mirror file, and the sum of other if given.
func HashFile(
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
