// Package verify compares the files of a mirror with the rows of the state. It only reads, and knows nothing of the
// Source and of repairs.
package verify

import (
	"context"
	"encoding/hex"
	"errors"

	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/inspect"
	"resyncd/sync/merge"
)

// Problem is a finding about a resource that the state knows.
type Problem struct {
	inspect.Finding
	ID int64
}

// Files checks every file that the state knows of a Source, and hands over faults as it goes.
func Files(
	ctx context.Context, st store.Resources, m blob.Mirror, source int64, page func(looked int, found []*Problem) error,
) error {
	look := func(ctx context.Context, r *store.Resource) (*Problem, error) { return File(ctx, m, r) }
	return Examine(ctx, st, store.ScanQuery{SourceID: source, Filter: store.FilterMirrored}, look, page)
}

// File compares one file with its row; nil when it is right.
func File(ctx context.Context, m blob.Mirror, r *store.Resource) (*Problem, error) {
	p := &Problem{ID: r.ID, Finding: inspect.Finding{URI: &r.URI, Key: &r.Key, Expected: new(merge.DigestOf(&r.Have))}}
	sum, _, _, err := Hash(ctx, m, r.Key, nil)
	switch {
	case err == nil && sum == r.Have.SHA256:
		return nil, nil
	case err == nil:
		p.Problem, p.Found = inspect.ProblemChanged, new("sha-256:"+hex.EncodeToString(sum[:]))
	case blob.Missing(err):
		p.Problem = inspect.ProblemMissing
	case errors.Is(err, blob.ErrNotRegular):
		p.Problem, p.Found = inspect.ProblemChanged, new("not a regular file")
	case ctx.Err() != nil || blob.Systemic(err) && !errors.Is(err, blob.ErrIO):
		return nil, err
	default:
		p.Problem, p.Found = inspect.ProblemChanged, new("unreadable: "+err.Error())
	}
	return p, nil
}
