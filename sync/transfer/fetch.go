package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/destination/safe"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
)

type verdict uint8

const (
	verdictCleared verdict = iota // the file is right, or nothing is wanted any more
	verdictFetched                // new bytes wait in the stage
	verdictAdopted                // a file without a row is right
	verdictGone                   // the Source no longer has it
	verdictRefused                // policy forbids the request
	verdictThere                  // a deletion was pushed, but the Source still serves it
	verdictFailed
)

// outcome is one resource after the work on it.
type outcome struct {
	res     *store.Resource
	want    *store.Want
	verdict verdict
	have    store.Have
	learnt  bool // have is recorded
	unsure  bool // its bytes may be in place in spite of a failure
	stage   blob.Stage
	// displace is the trash id of a file in the way.
	displace string
	failure  failure
	bytes    int64
	took     time.Duration // 0: not asked
	patient  bool
	aside    bool // tried again later; nothing is recorded
	// asked is the Source's clock at its answer (Settle).
	asked store.Micros
	// disk is a failure of the whole mirror.
	disk error
}

// The classes of failures of the disk, of cut bodies, and of bodies that nothing vouches for (F55).
const (
	classDisk      = "disk"
	classTruncated = "truncated"
	classUnproven  = "unproven"
)

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

func (o *outcome) discard() {
	if o.stage != nil {
		_ = o.stage.Discard()
		o.stage = nil
	}
}

type worker struct {
	watch watch
	body  body
}

// work looks at one resource. A panic costs that resource only (F5).
func (r *Reconciler) work(ctx context.Context, w *worker, j job) *outcome {
	o := &outcome{res: j.res, asked: r.s.LocalNow() - merge.Skew, patient: j.patient}
	err := safe.Do(func() error { return r.look(ctx, w, o) })
	if bug, ok := errors.AsType[*safe.PanicError](err); ok {
		r.s.Log.Error("panic while fetching; the resource is left owed",
			"uri", j.res.URI, "panic", bug.Value, "stack", string(bug.Stack))
		o.discard()
		o.fail(failure{class: "panic", reason: fmt.Sprint(bug.Value), lasts: true})
	} else if err != nil {
		o.failWith(err)
	}
	return o
}

// look compares want with have, and fetches what differs.
func (r *Reconciler) look(ctx context.Context, w *worker, o *outcome) error {
	o.want = merge.Effective(o.res.Wants)
	if o.want == nil || o.want.State == store.WantAbsent {
		r.unwanted(ctx, o)
		return nil
	}
	if done, err := r.onDisk(ctx, o); err != nil || done {
		return err
	}
	if o.want.Inline {
		r.inline(ctx, w, o)
	} else {
		r.fetch(ctx, w, o)
	}
	if o.verdict == verdictGone || o.verdict == verdictRefused {
		r.lookAt(ctx, o)
	}
	return nil
}

// unwanted handles a resource that is not wanted or pushed as deleted.
func (r *Reconciler) unwanted(ctx context.Context, o *outcome) {
	if r.lookAt(ctx, o) && o.want != nil && o.want.Pushed {
		r.confirm(ctx, o)
	}
}

// lookAt learns of a file unknown to the row before the row is closed.
func (r *Reconciler) lookAt(ctx context.Context, o *outcome) bool {
	now, err := r.s.Found(ctx, o.res, false)
	if err != nil {
		o.failWith(err)
	} else if now != nil {
		o.have, o.learnt = *now, true
	}
	return err == nil
}

// Satisfied tells without a request whether the mirror has the wanted bytes.
func (r *Reconciler) Satisfied(ctx context.Context, res *store.Resource) (bool, error) {
	return r.onDisk(ctx, &outcome{res: res, want: merge.Effective(res.Wants)})
}

func (r *Reconciler) onDisk(ctx context.Context, o *outcome) (done bool, err error) {
	h := &o.res.Have
	if o.want.State == store.WantAsk || r.s.Doubted(o.res) {
		return false, nil
	}
	if h.State != store.HaveNone {
		switch merge.Satisfied(o.want, h) {
		case merge.Yes:
			now, err := r.s.Found(ctx, o.res, true)
			return now == nil && err == nil, err
		case merge.HashLocally:
			return r.rehash(ctx, o)
		}
		return false, nil
	}
	if !r.s.Look {
		return false, nil
	}
	return r.adopt(ctx, o)
}

func (r *Reconciler) rehash(ctx context.Context, o *outcome) (bool, error) {
	d, ok := parsed.Strongest(o.want.Digests)
	if !ok {
		return false, nil
	}
	sum, n, other, err := r.s.HashFile(ctx, o.res.Key, d.New())
	if blob.Missing(err) || errors.Is(err, blob.ErrNotRegular) || errors.Is(err, blob.ErrIO) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if sum != o.res.Have.SHA256 || !bytes.Equal(d.Bytes(), other) || o.want.Length >= 0 && o.want.Length != n {
		return false, nil
	}
	o.have, o.learnt = o.res.Have, true
	o.have.Checked, o.have.Version = d.String(), o.want.Version
	return true, nil
}

// adopt takes over a right file that no row knows, as after a lost state or a kill. Any other file in its place goes to
// the trash.
func (r *Reconciler) adopt(ctx context.Context, o *outcome) (bool, error) {
	info, err := r.s.Mirror.Stat(ctx, o.res.Key)
	if blob.Missing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	o.displace = blob.NewTrashID(r.s.Now())
	d, ok := parsed.Strongest(o.want.Digests)
	if !ok || info.Kind != blob.KindFile || o.want.Length >= 0 && info.Length != o.want.Length {
		return false, nil
	}
	sum, n, other, err := r.s.HashFile(ctx, o.res.Key, d.New())
	if errors.Is(err, blob.ErrIO) { // an unreadable file counts as none (F10)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !bytes.Equal(d.Bytes(), other) {
		return false, nil
	}
	o.verdict, o.learnt, o.displace = verdictAdopted, true, ""
	o.have = store.Have{
		State: store.HavePresent, SHA256: sum, Length: n, ModTime: info.ModTime, Type: o.want.Type,
		Checked: d.String(), Version: o.want.Version, Fetched: r.s.LocalNow(),
	}
	return true, nil
}

func (r *Reconciler) fetch(ctx context.Context, w *worker, o *outcome) {
	if f := r.room(ctx, o.want.Length); f != nil {
		o.fail(*f)
		return
	}
	stage, err := r.s.Mirror.NewStage(ctx)
	if err != nil {
		o.failWith(err)
		return
	}
	o.stage = stage
	body := w.receive(stage, o.want.Digests)
	res, err := r.downloadWatched(w.watch, o, body)
	if err != nil {
		o.discard()
		if o.aside = errors.Is(err, errAside) && ctx.Err() == nil; !o.aside {
			r.failed(o, err)
		}
		return
	}
	if res.NotModified {
		o.discard()
		o.have, o.learnt = o.res.Have, true
		o.have.Version = o.want.Version
		return
	}
	f := body.check(o.want, &res)
	if f == nil && o.news(body) {
		f = &failure{class: classUnproven}
	}
	if f != nil && f.class == classUnproven {
		f = r.prove(ctx, o, body)
	}
	if f != nil {
		o.discard()
		o.fail(*f)
		return
	}
	r.accept(o, body, &res)
	if h := &o.res.Have; h.State == store.HavePresent && h.SHA256 == o.have.SHA256 &&
		!r.s.suspects(o.res) && !r.s.Differs(ctx, o.res) {
		o.discard()
		o.verdict, o.have.ModTime = verdictCleared, o.res.Have.ModTime
		return
	}
	if err := stage.Close(); err != nil {
		o.discard()
		o.failWith(err)
	}
}

// news tells whether an answer differs from ours: no document vouches for it, and it may be half a body (F55).
func (o *outcome) news(b *body) bool {
	h := &o.res.Have
	return o.want.State == store.WantAsk && (h.State != store.HavePresent || h.SHA256 != b.sum())
}

func (o *outcome) spent(asked time.Duration, err error) {
	if fe, ok := errors.AsType[*fetch.Error](err); ok && fe.Requests == 0 {
		return
	}
	o.took += max(asked, 1)
}

// confirm asks about a pushed deletion: only the Source's own 404 or 410 removes a file before a document does (P5).
func (r *Reconciler) confirm(ctx context.Context, o *outcome) {
	h, began := &o.res.Have, time.Now()
	resp, err := r.s.Means.Client.Get(ctx, fetch.Request{
		URL: o.res.URI, Policy: r.s.Means.Policy, InScope: r.inScope(o.want.SetID),
		NoCache: true, Once: r.triedBefore(o.res),
		ETag: h.ETag, LastModified: h.LastModified,
	})
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
		o.failWith(err)
	}
}

// largeBody is the length from which room is checked before a transfer (F76).
const largeBody = 64 << 20

func (r *Reconciler) room(ctx context.Context, length int64) *failure {
	if length < largeBody {
		return nil
	}
	if free, _, err := r.s.Mirror.Free(ctx); err == nil && free < uint64(length) {
		return &failure{class: ClassNoRoom, lasts: true,
			reason: fmt.Sprintf("%d bytes are needed, the disk has %d free", length, free)}
	}
	return nil
}

func (r *Reconciler) downloadWatched(next watch, o *outcome, body *body) (fetch.Result, error) {
	began := time.Now()
	ctx, t := r.under.begin(next, began, o.want.Length, o.patient)
	res, err := r.download(ctx, o, body, t)
	ended := time.Now()
	o.spent(ended.Sub(began), err)
	r.under.end(t, ended, err)
	return res, err
}

func (r *Reconciler) download(ctx context.Context, o *outcome, body *body, t *transfer) (fetch.Result, error) {
	req := fetch.Request{
		URL: o.res.URI, Policy: r.s.Means.Policy, MaxBytes: r.s.Means.MaxResource,
		InScope: r.inScope(o.want.SetID), Once: r.triedBefore(o.res),
	}
	if t != nil {
		req.Waiting, req.Resting = t.waiting, t.resting
	}
	req.NoCache = o.want.State == store.WantAsk
	opt := fetch.DownloadOptions{Resume: body.digest.Alg != rsdoc.None, DeclaredLength: o.want.Length}
	// A 304 for another length would come from a stale cache (F50, F59).
	if h := &o.res.Have; h.State == store.HavePresent && !r.s.suspects(o.res) && o.want.State == store.WantPresent &&
		body.digest.Alg == rsdoc.None && (o.want.Length < 0 || o.want.Length == h.Length) {
		req.ETag, req.LastModified = h.ETag, h.LastModified
	}
	body.hasher = &r.hasher
	defer body.arrived()
	res, err := r.s.Means.Client.Download(ctx, req, body, opt)
	o.bytes += res.Bytes
	if at := store.MicrosOf(res.Date); at.Known() {
		o.asked = min(at, r.s.LocalNow()) // a fast clock must not decide about later changes
	}
	return res, err
}

// triedBefore tells whether this run failed at a resource before. Quick retries of it would multiply the requests.
func (r *Reconciler) triedBefore(res *store.Resource) (failed bool) {
	if res.Work.Attempts > 0 {
		r.tally.add(func(t *tally) { failed = t.failing.Has(res.ID) })
	}
	return failed
}

func (r *Reconciler) inScope(set int64) func(uri string) bool {
	scope := r.scope
	if own := r.s.Rule(set); own != nil {
		scope = own
	}
	return func(uri string) bool { return scope(uri) == "" }
}

// prove fetches an unproven body again (F55): two equal bodies are a proof.
func (r *Reconciler) prove(ctx context.Context, o *outcome, body *body) *failure {
	first, n := body.sum(), body.n
	if err := body.Reset(); err != nil {
		return &failure{class: classDisk, reason: err.Error()}
	}
	began := time.Now()
	_, err := r.download(ctx, o, body, nil)
	o.spent(time.Since(began), err)
	if err != nil {
		f := classify(err)
		return &f
	}
	if body.sum() != first || body.n != n {
		return &failure{class: classUnproven, asked: 2,
			reason: "no document vouches for the body, and two transfers differed"}
	}
	return nil
}

func (r *Reconciler) accept(o *outcome, b *body, res *fetch.Result) {
	o.verdict, o.learnt = verdictFetched, true
	etag, modified := parsed.Lasting(res.ETag, res.LastModified, o.asked)
	o.have = store.Have{
		State: store.HavePresent, SHA256: b.sum(), Length: b.n, ETag: etag, LastModified: modified,
		Type: res.Type, Version: o.want.Version, Fetched: r.s.LocalNow(),
	}
	if b.digest.Alg != rsdoc.None {
		o.have.Checked, _, _ = strings.Cut(o.want.Digests, " ")
	}
	at := o.want.LastMod
	if lm, ok := parsed.HTTPTime(res.LastModified); ok {
		at = lm
	}
	if !at.Known() {
		at = r.s.LocalNow()
	}
	o.stage.SetModTime(at.Time())
	o.have.ModTime = at.Time().UnixNano()
}

func (r *Reconciler) failed(o *outcome, err error) {
	var fe *fetch.Error
	if errors.As(err, &fe) {
		switch {
		case fe.Kind == fetch.Gone && o.want.State == store.WantAsk:
			o.verdict = verdictGone
			return
		case fe.Kind == fetch.Refused && fe.Hop == 0:
			o.verdict, o.failure = verdictRefused, failure{class: "refused", reason: fe.Error()}
			return
		}
	}
	o.failWith(err)
}

// fail voids what was learnt, or a row would name bytes that were never placed (P3).
func (o *outcome) fail(f failure) {
	o.verdict, o.failure, o.learnt = verdictFailed, f, false
}

func (o *outcome) failWith(err error) {
	o.fail(classify(err))
	if blob.Systemic(err) {
		o.disk = err
	}
}

func classify(err error) failure {
	f := failure{class: "local", reason: err.Error()}
	var fe *fetch.Error
	switch {
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
