package transfer

import (
	"context"
	"errors"
	"time"

	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/sync/merge"
)

// answers takes a failure that decides about the resource.
func (o *outcome) answers(err error) bool {
	fe, ok := errors.AsType[*fetch.Error](err)
	switch {
	case ok && fe.Kind == fetch.Gone && o.asks():
		o.verdict = verdictGone
	case ok && fe.Kind == fetch.Refused && fe.Hop == 0:
		o.verdict, o.failure = verdictRefused, failure{class: "refused", reason: fe.Error()}
	default:
		return false
	}
	return true
}

// lookAt learns of a file unknown to the row before the row is closed.
func (r *Reconciler) lookAt(ctx context.Context, o *outcome) error {
	now, err := r.s.Found(ctx, o.res, false)
	if now != nil {
		o.have, o.learnt = *now, true
	}
	return err
}

// confirm asks about a pushed deletion: only the Source's own 404 or 410 removes a file before a document does (P5).
func (r *Reconciler) confirm(ctx context.Context, o *outcome) error {
	h, began := &o.res.Have, time.Now()
	req := r.request(o)
	req.NoCache, req.ETag, req.LastModified = true, h.ETag, h.LastModified
	resp, err := r.s.Means.Client.Get(ctx, req)
	o.spent(time.Since(began), err)
	switch {
	case err == nil:
		_ = resp.Body.Close()
		o.verdict = verdictThere
	case fetch.KindOf(err) == fetch.Gone:
		o.verdict = verdictGone
	case fetch.KindOf(err) == fetch.Refused:
		o.verdict = verdictThere
	default:
		return err
	}
	return nil
}

// decided writes the Source's answer, or the policy's refusal, into the want.
func (r *Reconciler) decided(o *outcome, wants []store.Want) ([]store.Want, *store.Want) {
	next := merge.Settle(*o.want, o.there(), o.asked)
	next.Listed = nil
	switch l := o.want.Listed; {
	case o.verdict == verdictRefused:
		next = *o.want
		next.Refused = o.failure.reason
	case o.verdict == verdictGone && !o.want.Pushed && l != nil && l.State == store.WantPresent:
		next = *l // its documents never took back what they list (P5)
	case o.want.Pushed:
		next.Listed = l
	}
	return merge.Replaced(wants, &next), &next
}

// stays takes back a pushed deletion of a resource that the Source still serves. The answer may be an error page with
// status 200 (P5).
func (r *Reconciler) stays(o *outcome, wants []store.Want, have *store.Have) ([]store.Want, *store.Want) {
	next := *o.want
	switch l := o.want.Listed; {
	case l != nil && l.State != store.WantNone && l.State != store.WantAbsent && !pushedSince(have, l):
		next = *l
	case have.State == store.HavePresent && have.Version.Until.Known():
		next.State, next.Digests, next.Length, next.LastMod =
			store.WantPresent, merge.DigestOf(have), have.Length, store.NoTime
		next.Version = have.Version
	default:
		next.State, next.Digests, next.Length, next.LastMod = store.WantAsk, "", -1, store.NoTime
		next.Version.From--
		next.Version.Until = next.Version.From
	}
	return merge.Replaced(wants, &next), &next
}

func pushedSince(h *store.Have, listed *store.Want) bool {
	return h.State == store.HavePresent && listed.State == store.WantPresent &&
		merge.Satisfied(listed, h) != merge.Yes && merge.Relate(h.Version, listed.Version) == merge.Newer
}
