package transfer

import (
	"context"
	"errors"
	"slices"
	"time"
)

// lingerFor bounds how long a run that is told to end may take to give what has come its names and rows.
const lingerFor = 5 * time.Second

// orderly tells the end of a run that somebody asked for. Any other cause is a failure of the run, which must place nothing more: it
// may be that the Source is another process's by now.
func orderly(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), context.Canceled)
}

// lingering is a context that outlives an orderly end of ctx for lingerFor.
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

// came is what of a group is worth a place and a row: once ctx has ended all but what failed, for most of that failed because it has.
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
