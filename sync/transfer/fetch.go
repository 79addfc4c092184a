package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
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

var results = [...]string{
	verdictCleared: "unchanged", verdictFetched: "fetched", verdictAdopted: "unchanged", verdictGone: "gone",
	verdictRefused: "refused", verdictThere: "unchanged", verdictFailed: "failed",
}

// outcome is one resource after the work on it.
type outcome struct {
	res      *store.Resource
	attempt  *attempt // until the conductor has it back
	want     *store.Want
	verdict  verdict
	have     store.Have
	learnt   bool // have is recorded
	unsure   bool // its bytes may be in place in spite of a failure
	stage    blob.Stage
	displace string // the trash id of a file in the way
	via      via
	failure  failure
	bytes    int64
	took     time.Duration // 0: not asked
	aside    bool          // tried again later; nothing is recorded
	asked    store.Micros  // the Source's clock at its answer (Settle)
	disk     error         // a failure of the whole mirror
}

func (o *outcome) discard() {
	if o.stage != nil {
		_ = o.stage.Discard()
		o.stage = nil
	}
}

func (o *outcome) there() bool { return o.verdict == verdictFetched || o.verdict == verdictCleared }

func (o *outcome) asks() bool { return o.want != nil && o.want.State == store.WantAsk }

// absent tells that no file is wanted.
func (o *outcome) absent() bool { return o.want == nil || o.want.State == store.WantAbsent }

// fail voids what was learnt, or a row would name bytes that were never placed (P3).
func (o *outcome) fail(err error) {
	o.discard()
	o.verdict, o.failure, o.learnt = verdictFailed, classify(err), false
	if blob.Systemic(err) {
		o.disk = err
	}
}

// work has a panic cost one resource only (F5).
func (r *Reconciler) work(ctx context.Context, a *attempt) *outcome {
	if len(a.batch) > 0 {
		a.failed = safe.Do(func() error { return r.ask(ctx, a.batch) })
		return &outcome{attempt: a}
	}
	o := &outcome{res: a.res, attempt: a, asked: r.s.LocalNow() - merge.Skew}
	err := safe.Do(func() error { return r.look(ctx, a, o) })
	if bug, ok := errors.AsType[*safe.PanicError](err); ok {
		r.s.Log.Error("panic while fetching; the resource is left owed",
			"uri", a.res.URI, "panic", bug.Value, "stack", string(bug.Stack))
		err = &failure{class: "panic", reason: fmt.Sprint(bug.Value), lasts: true}
	}
	if err != nil {
		o.fail(err)
		o.aside = errors.Is(err, errAside) && ctx.Err() == nil
	}
	return o
}

// look compares want with have, and has what differs brought.
func (r *Reconciler) look(ctx context.Context, a *attempt, o *outcome) error {
	o.want = merge.Effective(o.res.Wants)
	if o.absent() {
		if err := r.lookAt(ctx, o); err != nil || o.want == nil || !o.want.Pushed {
			return err
		}
		return r.confirm(ctx, o)
	}
	if done, err := r.onDisk(ctx, o); err != nil || done {
		return err
	}
	err := r.bring(ctx, a, o)
	if err != nil && !o.answers(err) {
		return err
	}
	if err != nil {
		o.discard()
		return r.lookAt(ctx, o)
	}
	return nil
}

// Satisfied tells without a request whether the mirror has the wanted bytes.
func (r *Reconciler) Satisfied(ctx context.Context, res *store.Resource) (bool, error) {
	return r.onDisk(ctx, &outcome{res: res, want: merge.Effective(res.Wants)})
}

func (r *Reconciler) onDisk(ctx context.Context, o *outcome) (done bool, err error) {
	h := &o.res.Have
	if o.asks() || r.s.Doubted(o.res) {
		return false, nil
	}
	if h.State == store.HaveNone {
		if !r.s.Look {
			return false, nil
		}
		return r.adopt(ctx, o)
	}
	switch merge.Satisfied(o.want, h) {
	case merge.Yes:
		now, err := r.s.Found(ctx, o.res, true)
		return now == nil && err == nil, err
	case merge.HashLocally:
		sum, _, checked, err := r.asListed(ctx, o)
		if err != nil || checked == "" || sum != h.SHA256 {
			return false, err
		}
		o.have, o.learnt = *h, true
		o.have.Checked, o.have.Version = checked, o.want.Version
		return true, nil
	}
	return false, nil
}

// asListed hashes a mirror file. checked is the digest that vouches for it; an unreadable file has none (F10).
func (r *Reconciler) asListed(ctx context.Context, o *outcome) (sum [32]byte, n int64, checked string, err error) {
	d, ok := parsed.Strongest(o.want.Digests)
	if !ok {
		return sum, 0, "", nil
	}
	sum, n, other, err := HashFile(ctx, r.s.Mirror, o.res.Key, d.New())
	switch {
	case blob.Missing(err), errors.Is(err, blob.ErrNotRegular), errors.Is(err, blob.ErrIO):
		return sum, n, "", nil
	case err != nil, !bytes.Equal(d.Bytes(), other), o.want.Length >= 0 && o.want.Length != n:
		return sum, n, "", err
	}
	return sum, n, d.String(), nil
}

// adopt takes over a right file that no row knows, as after a kill. Any other in its place goes to the trash.
func (r *Reconciler) adopt(ctx context.Context, o *outcome) (bool, error) {
	info, err := r.s.Mirror.Stat(ctx, o.res.Key)
	if blob.Missing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	o.displace = blob.NewTrashID(r.s.Now())
	if info.Kind != blob.KindFile || o.want.Length >= 0 && info.Length != o.want.Length {
		return false, nil
	}
	sum, n, checked, err := r.asListed(ctx, o)
	if err != nil || checked == "" {
		return false, err
	}
	o.verdict, o.learnt, o.displace = verdictAdopted, true, ""
	o.have = store.Have{
		State: store.HavePresent, SHA256: sum, Length: n, ModTime: info.ModTime, Type: o.want.Type,
		Checked: checked, Version: o.want.Version, Fetched: r.s.LocalNow(),
	}
	return true, nil
}

// bring has the wanted bytes written into a stage.
func (r *Reconciler) bring(ctx context.Context, a *attempt, o *outcome) error {
	if err := r.room(ctx, o.want.Length); err != nil {
		return err
	}
	stage, err := r.s.Mirror.NewStage(ctx)
	if err != nil {
		return err
	}
	o.stage = stage
	a.body = newBody(stage, o.want.Digests)
	if a.offer = r.s.useOffer(o.res.ID); a.offer != nil {
		defer a.offer.Package.release()
	}
	res, err := r.carry(ctx, a, o)
	if err != nil {
		return err
	}
	if res.NotModified {
		o.discard()
		o.have, o.learnt = o.res.Have, true
		o.have.Version = o.want.Version
		return nil
	}
	r.accept(o, &a.body, &res)
	if h := &o.res.Have; h.State == store.HavePresent && h.SHA256 == o.have.SHA256 &&
		!r.s.suspects(o.res) && !r.s.Differs(ctx, o.res) {
		o.discard()
		o.verdict, o.have.ModTime = verdictCleared, o.res.Have.ModTime
		return nil
	}
	return stage.Close()
}

// news tells whether an answer differs from ours: no document vouches for it, and it may be half a body (F55).
func (o *outcome) news(b *body) bool {
	h := &o.res.Have
	return o.asks() && !o.want.Inline && (h.State != store.HavePresent || h.SHA256 != b.sum())
}

func (o *outcome) spent(asked time.Duration, err error) {
	if fe, ok := errors.AsType[*fetch.Error](err); ok && fe.Requests == 0 {
		return
	}
	o.took += max(asked, 1)
}

func (r *Reconciler) request(o *outcome) fetch.Request {
	refused := r.s.Rule(o.want.SetID)
	return fetch.Request{
		URL: o.res.URI, Policy: r.s.Means.Policy,
		InScope: func(uri string) bool { return refused(uri) == "" },
		Once:    r.triedBefore(o.res), // or quick retries would multiply the requests
	}
}

// largeBody is the length from which room is checked before a transfer (F76).
const largeBody = 64 << 20

func (r *Reconciler) room(ctx context.Context, length int64) error {
	if length < largeBody {
		return nil
	}
	if free, _, err := r.s.Mirror.Free(ctx); err == nil && free < uint64(length) {
		return &failure{class: ClassNoRoom, lasts: true,
			reason: fmt.Sprintf("%d bytes are needed, the disk has %d free", length, free)}
	}
	return nil
}

// fromSource downloads a resource, unless it is broken off.
func (r *Reconciler) fromSource(_ context.Context, a *attempt, o *outcome) (fetch.Result, error) {
	a.silence.large = o.want.Length >= asideBody
	res, err := r.fetch(a.ctx, a, o, a.silence.waits)
	a.silence.end(err)
	return res, err
}

func (r *Reconciler) fetch(
	ctx context.Context, a *attempt, o *outcome, waiting func(bool, time.Time),
) (fetch.Result, error) {
	req := r.request(o)
	req.MaxBytes, req.Waiting, req.NoCache = r.s.Means.MaxResource, waiting, o.asks()
	// A 304 for another length would come from a stale cache (F50, F59).
	if h := &o.res.Have; h.State == store.HavePresent && !r.s.suspects(o.res) && o.want.State == store.WantPresent &&
		!a.body.isListed() && (o.want.Length < 0 || o.want.Length == h.Length) {
		req.ETag, req.LastModified = h.ETag, h.LastModified
	}
	res, err := r.download(ctx, o, req, &a.body, o.want.Length)
	if at := store.MicrosOf(res.Date); at.Known() {
		o.asked = min(at, r.s.LocalNow()) // a fast clock must not decide about later changes
	}
	return res, err
}

// prove fetches an unproven body again (F55): two equal bodies are a proof.
func (r *Reconciler) prove(ctx context.Context, a *attempt, o *outcome) error {
	b := &a.body
	first, n := b.sum(), b.n
	if err := b.Reset(); err != nil {
		return &failure{class: classDisk, reason: err.Error()}
	}
	if _, err := r.fetch(ctx, a, o, nil); err != nil {
		return new(classify(err)) // a failure, whatever the answer says: the first one was another
	}
	if b.sum() != first || b.n != n {
		return &failure{class: classUnproven, asked: 2,
			reason: "no document vouches for the body, and two transfers differed"}
	}
	return nil
}

// fromDocument has the bytes that came with a document.
func (r *Reconciler) fromDocument(ctx context.Context, a *attempt, o *outcome) (fetch.Result, error) {
	content, err := r.s.Content(ctx, o.res)
	if errors.Is(err, store.ErrNotFound) {
		err = &failure{class: ClassNoContent, stale: true, lasts: true,
			reason: "its bytes come with its feed, and are not at hand: the next pull looks for it there"}
	}
	if err == nil {
		err = r.tooLarge(int64(len(content)))
	}
	if err == nil {
		_, err = a.body.Write(content)
	}
	return fetch.Result{Info: fetch.Info{Type: o.want.Type}}, err
}

func (r *Reconciler) tooLarge(n int64) error {
	if most := r.s.Means.MaxResource; most > 0 && n > most {
		return &failure{class: fetch.TooLarge.String(), lasts: true,
			reason: fmt.Sprintf("%d bytes are more than max_resource, %d", n, most)}
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
	if b.isListed() {
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

// body is the Sink of one transfer.
type body struct {
	stage   fetch.Sink
	own     hash.Hash // SHA-256
	listed  expected
	offered expected // of the package that is tried
	n       int64
	used    bool
	room    [64]byte // avoids an allocation for each sum
}

// expected is a digest that the bytes must have, and its hash unless that is SHA-256.
type expected struct {
	digest rsdoc.Digest
	hash   hash.Hash
}

func expect(digests string) (e expected) {
	if d, ok := parsed.Strongest(digests); ok {
		e.digest = d
		if d.Alg != rsdoc.SHA256 {
			e.hash = d.New()
		}
	}
	return e
}

func newBody(stage fetch.Sink, digests string) body {
	return body{stage: stage, own: sha256.New(), listed: expect(digests)}
}

// offer has the body checked with what a manifest says too, until Reset.
func (b *body) offer(digests string) {
	b.offered, b.used = expect(digests), true
}

func (b *body) Write(p []byte) (int, error) {
	b.used = true
	n, err := b.stage.Write(p)
	b.own.Write(p[:n])
	for _, e := range [...]*expected{&b.listed, &b.offered} {
		if e.hash != nil {
			e.hash.Write(p[:n])
		}
	}
	b.n += int64(n)
	return n, err
}

// Reset implements fetch.Sink.
func (b *body) Reset() error {
	b.own.Reset()
	if b.listed.hash != nil {
		b.listed.hash.Reset()
	}
	b.offered, b.n, b.used = expected{}, 0, false
	return b.stage.Reset()
}

func (b *body) sum() [32]byte { return [32]byte(b.own.Sum(b.room[:0])) }

func (b *body) isListed() bool { return b.listed.digest.Alg != rsdoc.None }

// check compares length and digests (P2, F48 to F50, F55). proven is false where nothing tells that the body is whole.
func (b *body) check(w *store.Want, res *fetch.Result) (proven bool, err error) {
	for _, e := range [...]*expected{&b.listed, &b.offered} {
		if e.digest.Alg == rsdoc.None {
			continue
		}
		h := e.hash
		if h == nil {
			h = b.own
		}
		if got := h.Sum(b.room[:0]); !bytes.Equal(e.digest.Bytes(), got) {
			return false, mismatch("the body's %s is %x (%d bytes), listed is %s", e.digest.Alg, got, b.n, e.digest)
		}
	}
	if w.State != store.WantAsk && w.Length >= 0 && w.Length != b.n {
		return false, mismatch("the body has %d bytes, listed are %d", b.n, w.Length)
	}
	return b.isListed() || w.Length >= 0 || !res.CloseDelimited, nil
}

func mismatch(format string, args ...any) error {
	return &failure{class: ClassMismatch, stale: true, wrong: true, reason: fmt.Sprintf(format, args...)}
}
