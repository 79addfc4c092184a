package verify

import (
	"context"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"resyncd/store"
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
