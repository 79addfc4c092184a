package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"strings"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
)

// verdict is how the work on one resource ended.
type verdict uint8

const (
	verdictCleared verdict = iota // what is on disk is right, or nothing is wanted any more
	verdictFetched                // new bytes wait in the stage
	verdictAdopted                // a file that no row knew is what is wanted
	verdictGone                   // the Source was asked and has it no more
	verdictRefused                // policy forbids to ask
	verdictThere                  // a deletion was pushed, but the Source still serves it
	verdictFailed
)

// outcome is one resource after a worker looked at it; it becomes durable in settle.
type outcome struct {
	res     *store.Resource
	want    *store.Want // the effective want it was judged by
	verdict verdict
	have    store.Have // for fetched, adopted, and cleared where a check taught something
	learnt  bool       // have is to be recorded
	unsure  bool       // its bytes may be in place although placing them failed
	stage   blob.Stage
	// displace: a file that is not ours may be in the way and goes to the trash.
	displace string
	failure  failure
	bytes    int64
	took     time.Duration // to ask the Source, 0: it was not asked
	patient  bool          // its job was
	aside    bool          // it is to be tried again after others; nothing is recorded
	// asked is the Source's clock when it answered, for answers that decide (Settle).
	asked store.Micros
	// disk is a failure of the whole mirror, met by this resource.
	disk error
}

// classDisk is the class of failures of the mirror's disk, classTruncated that of bodies that ended before their end, and
// classUnproven that of bodies that nothing vouches for (F55).
const (
	classDisk      = "disk"
	classTruncated = "truncated"
	classUnproven  = "unproven"
)

// failure is an entry of the ledger in the making.
type failure struct {
	class   string
	cause   string // fetch.CauseOf
	reason  string
	wait    time.Duration // at least this long
	lasts   bool          // asking again soon will not help
	asked   int           // so many times, 0: once
	stale   bool          // a newer list may explain it
	wrong   bool          // an answer came, but not that
	unasked bool          // nothing was sent: the host is closed for now
}

func (o *outcome) discard() {
	if o.stage != nil {
		_ = o.stage.Discard() // the stage folder is emptied at the next start anyway
		o.stage = nil
	}
}

// worker is what one of the workers uses again for each resource.
type worker struct {
	watch watch
	body  body
}

// work looks at one resource. A panic costs that resource only (F5).
func (r *Reconciler) work(ctx context.Context, w *worker, j job) (o *outcome) {
	res := j.res
	o = &outcome{res: res, asked: r.s.LocalNow() - merge.Skew, patient: j.patient}
	defer func() {
		if p := recover(); p != nil {
			r.s.Log.Error("panic while fetching; the resource is left owed", "uri", res.URI, "panic", p, "stack", string(debug.Stack()))
			o.discard()
			o.fail(failure{class: "panic", reason: fmt.Sprint(p), lasts: true})
		}
	}()
	o.want = merge.Effective(res.Wants)
	if o.want == nil || o.want.State == store.WantAbsent {
		r.unwanted(ctx, o)
		return o
	}
	if done, err := r.onDisk(ctx, o); err != nil {
		o.failWith(err)
		return o
	} else if done {
		return o
	}
	if o.want.Inline {
		r.inline(ctx, w, o)
	} else {
		r.fetch(ctx, w, o)
	}
	if o.verdict == verdictGone || o.verdict == verdictRefused {
		r.lookAt(ctx, o)
	}
	return o
}

// unwanted sees to a resource that nobody wants any more, or of which a notification says so.
func (r *Reconciler) unwanted(ctx context.Context, o *outcome) {
	if r.lookAt(ctx, o) && o.want != nil && o.want.Pushed {
		r.confirm(ctx, o)
	}
}

// lookAt learns of a file that the row does not know before the row is done with. It is false if that cannot be told.
func (r *Reconciler) lookAt(ctx context.Context, o *outcome) bool {
	now, err := r.s.Found(ctx, o.res, false)
	if err != nil {
		o.failWith(err)
	} else if now != nil {
		o.have, o.learnt = *now, true
	}
	return err == nil
}

// Satisfied tells whether the mirror has what is wanted of a resource, without asking the Source.
func (r *Reconciler) Satisfied(ctx context.Context, res *store.Resource) (bool, error) {
	return r.onDisk(ctx, &outcome{res: res, want: merge.Effective(res.Wants)})
}

// onDisk finds out without the network whether the right bytes are there already.
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

// rehash compares a file with a digest of an algorithm that it was never checked by.
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

// adopt takes over a file that is what is wanted although no row knows it: the state was lost, the folder was there before
// us, or a kill came between the file and its row. Anything else under the key makes way to the trash.
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
	if errors.Is(err, blob.ErrIO) { // as the disk has it, it is none (F10)
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

// fetch asks the Source and leaves checked bytes in a stage.
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
	if h := &o.res.Have; h.State == store.HavePresent && h.SHA256 == o.have.SHA256 && !r.s.suspects(o.res) && !r.s.Differs(ctx, o.res) {
		o.discard() // it is what we have
		o.verdict, o.have.ModTime = verdictCleared, o.res.Have.ModTime
		return
	}
	if err := stage.Close(); err != nil {
		o.discard()
		o.failWith(err)
	}
}

// news tells a body that came to a question and is not what we have: no document vouches for it, and half a body may look
// whole (F55).
func (o *outcome) news(b *body) bool {
	h := &o.res.Have
	return o.want.State == store.WantAsk && (h.State != store.HavePresent || h.SHA256 != b.sum())
}

// spent notes how long the Source was asked. It was not where policy forbids to, or its host is closed for now.
func (o *outcome) spent(asked time.Duration, err error) {
	if fe, ok := errors.AsType[*fetch.Error](err); ok && fe.Requests == 0 {
		return
	}
	o.took += max(asked, 1)
}

// confirm asks the Source whether it deleted what a notification says it did: only its own 404 or 410 removes a file before
// a document tells (P5).
func (r *Reconciler) confirm(ctx context.Context, o *outcome) {
	h, began := &o.res.Have, time.Now()
	resp, err := r.s.Means.Client.Get(ctx, fetch.Request{
		URL: o.res.URI, Policy: r.s.Means.Policy, InScope: r.inScope(o.want.SetID), NoCache: true, Once: r.triedBefore(o.res),
		ETag: h.ETag, LastModified: h.LastModified,
	})
	o.spent(time.Since(began), err)
	switch {
	case err == nil:
		_ = resp.Body.Close() // that there is one was all to know
		o.verdict = verdictThere
	case fetch.KindOf(err) == fetch.Gone:
		o.verdict = verdictGone
	case fetch.KindOf(err) == fetch.Refused:
		o.verdict = verdictThere
	default:
		o.failWith(err)
	}
}

// largeBody is from when on the disk is asked for room before a transfer begins (F76).
const largeBody = 64 << 20

func (r *Reconciler) room(ctx context.Context, length int64) *failure {
	if length < largeBody {
		return nil
	}
	if free, _, err := r.s.Mirror.Free(ctx); err == nil && free < uint64(length) {
		return &failure{class: ClassNoRoom, lasts: true, reason: fmt.Sprintf("%d bytes are needed, the disk has %d free", length, free)}
	}
	return nil
}

// downloadWatched is a download that may be set aside, unless that has been done before.
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
	req := fetch.Request{URL: o.res.URI, Policy: r.s.Means.Policy, MaxBytes: r.s.Means.MaxResource, InScope: r.inScope(o.want.SetID),
		Once: r.triedBefore(o.res)}
	if t != nil {
		req.Waiting, req.Resting = t.waiting, t.resting
	}
	req.NoCache = o.want.State == store.WantAsk // the answer decides
	opt := fetch.DownloadOptions{Resume: body.digest.Alg != rsdoc.None, DeclaredLength: o.want.Length}
	if h := &o.res.Have; h.State == store.HavePresent && !r.s.suspects(o.res) && o.want.State == store.WantPresent &&
		body.digest.Alg == rsdoc.None && (o.want.Length < 0 || o.want.Length == h.Length) { // a 304 for a file of another length is a stale cache's (F50, F59)
		req.ETag, req.LastModified = h.ETag, h.LastModified
	}
	body.hasher = &r.hasher
	defer body.arrived()
	res, err := r.s.Means.Client.Download(ctx, req, body, opt)
	o.bytes += res.Bytes
	if at := store.MicrosOf(res.Date); at.Known() {
		o.asked = min(at, r.s.LocalNow()) // a clock that is ahead would have it speak for what is still to come
	}
	return res, err
}

// triedBefore tells what this run asked for in vain before. The ledger says when it comes again, and each time it is asked for once:
// with quick retries each time a resource that always fails was asked for 24 times in half a minute.
func (r *Reconciler) triedBefore(res *store.Resource) (failed bool) {
	if res.Work.Attempts > 0 {
		r.tally.add(func(t *tally) { failed = t.failing.Has(res.ID) })
	}
	return failed
}

// inScope is the scope of the set that wants the resource: a pass works off what all sets of the Source owe.
func (r *Reconciler) inScope(set int64) func(uri string) bool {
	scope := r.scope
	if own := r.s.Rule(set); own != nil {
		scope = own
	}
	return func(uri string) bool { return scope(uri) == "" }
}

// prove fetches a second time what nothing vouches for (F55): equal twice is believed.
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
		return &failure{class: classUnproven, asked: 2, reason: "no document vouches for the body, and two transfers differed"}
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

// failed sorts an error of the network into what it means for the resource.
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

// fail ends the work on a resource without a file. Whatever was learnt of one is void, or its row would name bytes that
// were never placed (P3): a stage may fail as late as at its closing.
func (o *outcome) fail(f failure) {
	o.verdict, o.failure, o.learnt = verdictFailed, f, false
}

func (o *outcome) failWith(err error) {
	o.fail(classify(err))
	if blob.Systemic(err) {
		o.disk = err
	}
}

// classify says what a failure means for the ledger. Kinds come from the edge that met it.
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
