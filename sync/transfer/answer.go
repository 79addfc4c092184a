package transfer

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/store/blob"
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

// The classes of failures: of files without room, bodies that are not as listed, inline resources whose bytes only a
// document can bring again, the disk, cut bodies, and bodies that nothing vouches for (F55).
const (
	ClassNoRoom    = "no-room"
	ClassMismatch  = "mismatch"
	ClassNoContent = "no-content"
	classDisk      = "disk"
	classTruncated = "truncated"
	classUnproven  = "unproven"
)

var classSilent = fetch.Stalled.String()

// failure is why a resource stays owed.
type failure struct {
	class   string
	cause   string
	reason  string
	wait    time.Duration
	lasts   bool // asking again soon will not help
	asked   int  // requests, 0 for one
	stale   bool // a newer list may explain it
	wrong   bool // an answer came, but a wrong one
	unasked bool // the host is closed, nothing was sent
}

// Error implements error.
func (f *failure) Error() string { return f.reason }

func classify(err error) failure {
	f := failure{class: "local", reason: err.Error()}
	var own *failure
	var fe *fetch.Error
	switch {
	case errors.As(err, &own):
		return *own
	case errors.As(err, &fe):
		f.class, f.wait, f.unasked = fe.Kind.String(), fe.RetryAfter, fe.Requests == 0 && fe.Kind == fetch.Throttled
		f.asked, f.cause = fe.Requests-fe.Hop, fetch.CauseOf(err)
		switch fe.Kind {
		case fetch.Transient:
			if errors.Is(err, io.ErrUnexpectedEOF) {
				f.class = classTruncated
			} else if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
				f.class = classSilent
			}
		case fetch.Gone:
			f.stale = true
		case fetch.Denied, fetch.Rejected, fetch.Refused, fetch.TooLarge, fetch.TLS:
			f.lasts = true
		case fetch.Broken:
			f.stale, f.wrong = true, true
		}
	case blob.Systemic(err):
		f.class = classDisk
	case errors.Is(err, blob.ErrIsFolder), errors.Is(err, blob.ErrParentNotFolder):
		f.class, f.lasts = "blocked", true
	case errors.Is(err, context.Canceled):
		f.class = "canceled"
	}
	return f
}

// The ledger backs off by the number of requests, with jitter. Lasting failures start at retryCap.
const (
	retryFirst = 250 * time.Millisecond
	// retryWrong follows a wrong answer: most are spoilt once, and nobody is overloaded.
	retryWrong = 25 * time.Millisecond
	retryCap   = time.Hour
	diskRetry  = 10 * time.Second
)

// reschedule is when a failed resource is tried again.
func (o *outcome) reschedule(now store.Micros) store.Work {
	w := o.res.Work
	if !w.Since.Known() || w.Since == 0 || w.Attempts == 0 {
		w.Since = now
	}
	w.Action = store.ActionFetch
	if !o.failure.unasked {
		w.Attempts += max(o.failure.asked, 1)
	}
	w.Class, w.Cause, w.Reason = o.failure.class, o.failure.cause, Clip(o.failure.reason, 500)
	w.Due = now + store.Micros(backoff(w.Attempts, o.failure)/time.Microsecond)
	return w
}

func backoff(attempts int, f failure) time.Duration {
	d := retryCap
	switch {
	case f.class == classDisk: // the disk is probed by itself (F6)
		d = diskRetry
	case !f.lasts && attempts < 16:
		n := max(attempts-1, 0)
		if d = min(retryFirst<<n, retryCap); f.wrong {
			d = min(retryWrong<<(2*n), d)
		}
	}
	d -= time.Duration(rand.Int64N(int64(d)/4 + 1))
	return max(d, f.wait)
}

// Clip shortens a text for people, never inside a character.
func Clip(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
