package sync

import (
	"context"
	"errors"

	"resyncd/store"
)

// policyAdopting stands in Source.Policy from before the marker is put into a folder that holds files of others until the end of a
// whole run, so that a kill in between does not make these files ours.
const policyAdopting = "adopting"

// Adopt records a Source whose mirror is about to be made of a folder that was there before. Else a folder with a marker, of
// which the state knows nothing, is one whose state was lost (LostState).
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

// LostState tells of a mirror with a root marker whether its state was lost: the state does not know the Source (nil), or only
// since somebody began with it anew, as a daemon records it before it opens the mirror. Files that no list names are ours then.
func LostState(src *store.Source) bool {
	return src == nil || src.RootID == "" && src.Policy != policyAdopting
}
