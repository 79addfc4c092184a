package sync

import (
	"context"
	"errors"

	"resyncd/store"
)

// policyAdopting stands in Source.Policy until a whole run has ended. Without it a kill in between would make the
// foreign files of the folder ours.
const policyAdopting = "adopting"

// Adopt records a Source whose mirror will be a folder that existed before. Without that record LostState would take
// the folder for one whose state was lost.
func (e *Engine) Adopt(ctx context.Context, name, url string) (src store.Source, err error) {
	src, err = e.Store.EnsureSource(ctx, name, url)
	if err != nil || src.Policy == policyAdopting {
		return src, err
	}
	claim, release, err := e.claim(ctx, src.ID)
	if err != nil {
		return src, err
	}
	policy := policyAdopting
	err = e.Store.Commit(ctx, &store.Commit{Claim: claim, Source: &store.SourceChange{Policy: &policy}})
	if err = errors.Join(err, release()); err != nil {
		return src, err
	}
	return e.Store.Source(ctx, name)
}

// LostState reports whether the state of a mirror with a root marker was lost: the Source is unknown (nil), or somebody
// has only just begun it anew. Files that no list names are ours then.
func LostState(src *store.Source) bool {
	return src == nil || src.RootID == "" && src.Policy != policyAdopting
}
