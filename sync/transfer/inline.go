package transfer

import (
	"context"
	"errors"
	"fmt"

	"resyncd/destination/fetch"
	"resyncd/store"
)

// ClassNoContent is the class of inline resources whose bytes only a document can bring again.
const ClassNoContent = "no-content"

// ClassNoRoom is the class of files without room, ClassMismatch of bodies that are not as listed.
const ClassNoRoom, ClassMismatch = "no-room", "mismatch"

func (r *Reconciler) inline(ctx context.Context, w *worker, o *outcome) {
	content, err := r.s.Content(ctx, o.res)
	if errors.Is(err, store.ErrNotFound) {
		o.fail(failure{class: ClassNoContent, stale: true, lasts: true,
			reason: "its bytes come with its feed, and are not at hand: the next pull looks for it there"})
		return
	}
	if err != nil {
		o.failWith(err)
		return
	}
	if most := r.s.Means.MaxResource; most > 0 && int64(len(content)) > most {
		o.fail(failure{class: fetch.TooLarge.String(), lasts: true,
			reason: fmt.Sprintf("%d bytes are more than max_resource, %d", len(content), most)})
		return
	}
	stage, err := r.s.Mirror.NewStage(ctx)
	if err != nil {
		o.failWith(err)
		return
	}
	o.stage = stage
	body := w.receive(stage, o.want.Digests)
	if _, err := body.Write(content); err != nil {
		o.discard()
		o.failWith(err)
		return
	}
	res := fetch.Result{}
	if f := body.check(o.want, &res); f != nil { // the bytes may belong to a newer want
		o.discard()
		o.fail(*f)
		return
	}
	res.Type = o.want.Type
	r.accept(o, body, &res)
	if err := stage.Close(); err != nil {
		o.discard()
		o.failWith(err)
	}
}

func (o *outcome) settled(rc *store.ResourceChange) {
	if o.want != nil && o.want.Inline && rc.Work != nil && rc.Work.Action != store.ActionFetch {
		rc.DropContent = true
	}
}
