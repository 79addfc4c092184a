package transfer

import (
	"context"
	"errors"
	"slices"
	"time"
)

// lingerFor bounds how long an ended run may still place files.
const lingerFor = 5 * time.Second

// orderly tells whether a run was asked to end. Otherwise it must place nothing more: another process may own the
// Source by now.
func orderly(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), context.Canceled)
}

func lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if !orderly(ctx) {
			end()
			return
		}
		late := time.NewTimer(lingerFor)
		defer late.Stop()
		select {
		case <-late.C:
			end()
		case <-longer.Done():
		}
	})
	return longer, func() { stop(); end() }
}

// came drops failures from a group once ctx has ended, which caused most of them.
func came(ctx context.Context, group []*outcome) []*outcome {
	if ctx.Err() == nil {
		return group
	}
	return slices.DeleteFunc(group, func(o *outcome) bool {
		failed := o.verdict == verdictFailed
		if failed {
			o.discard()
		}
		return failed
	})
}
