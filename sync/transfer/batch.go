package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/destination/rspack"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
)

// An endpoint that fails is left alone for a while: until then, each resource is asked for by itself.
const (
	postAgain  = time.Second
	postMost   = 10 * time.Minute
	postAbsent = time.Hour // after an answer that there is no such endpoint
	// Each worker may have an answer, so its directory and manifest are bounded as what was asked for is (P8).
	membersMost  = 10_000
	manifestMost = 64 << 20
)

// posts are the conductor's memory of the endpoint that answers for many resources at once.
type posts struct {
	open     int       // requests under way
	failures int       // in a row
	until    time.Time // when it may be asked again
}

// answer is the spool of an answer, which no later run goes on with.
type answer struct{ blob.Spool }

// Close implements blob.Spool.
func (a answer) Close() error { return a.Discard() }

// gather has rows that are queued right now asked for with one request. None waits for others to come.
func (c *conductor) gather(a *attempt) {
	size := c.r.s.Means.BatchSize
	if c.post.failures > 0 {
		size = min(size, 2) // it may fail again, and what waits for it is held up
	}
	if a.patient || !c.gathers(a.res) {
		return
	}
	rows := []*store.Resource{a.res}
	head := c.queue[:min(len(c.queue), max(size-1, 0))]
	left := slices.DeleteFunc(slices.Clone(head), func(res *store.Resource) bool {
		if !c.gathers(res) {
			return false
		}
		rows = append(rows, res)
		return true
	})
	if len(rows) > 1 {
		c.queue = append(left, c.queue[len(head):]...)
		a.batch, a.silence.held = rows, true
		c.post.open++
		c.r.s.gathered(rows)
	}
}

// gathers tells whether a row may be asked for with others: for the first time, and only if its bytes are not at hand.
// An endpoint that failed is tried with one request, so that one that hangs does not have all places.
func (c *conductor) gathers(res *store.Resource) bool {
	s, p, want := c.r.s, &c.post, merge.Effective(res.Wants)
	return want != nil && want.State == store.WantPresent && !want.Inline && want.Refused == "" &&
		res.Work.Attempts == 0 && !s.is(res.ID, gathered) && !s.isOffered(res.ID) && !s.suspects(res) &&
		s.Rule(want.SetID)(res.URI) == "" && !s.Now().Before(p.until) && (p.failures == 0 || p.open == 0)
}

// answered queues the rows again: what was brought is offered, the rest is asked for.
func (c *conductor) answered(a *attempt) {
	p := &c.post
	c.queue = append(a.batch, c.queue...)
	p.open--
	if a.failed == nil || fetch.KindOf(a.failed) == fetch.Canceled {
		p.failures = 0
		return
	}
	now, wait := c.r.s.Now(), time.Duration(0)
	if !now.Before(p.until) { // else it was sent beside one that failed, too
		wait = min(postAgain<<min(p.failures, 16), postMost)
		p.failures++
	}
	if fe, ok := errors.AsType[*fetch.Error](a.failed); ok {
		switch fe.Status {
		case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusNotImplemented:
			wait = postAbsent
		}
		wait = max(wait, fe.RetryAfter)
	}
	if !now.Add(wait).After(p.until) {
		return
	}
	p.until = now.Add(wait)
	c.r.s.Log.Warn("the batch endpoint could not be used; until it is asked again, resources are asked for one by one",
		"endpoint", fetch.RedactURL(c.r.s.Means.Batch), "again", p.until, "err", a.failed)
}

// ask has an on-demand package brought for rows, and offers them what is in it.
func (r *Reconciler) ask(ctx context.Context, rows []*store.Resource) error {
	byURI, uris := make(map[string]*store.Resource, len(rows)), make([]string, len(rows))
	for i, res := range rows {
		byURI[res.URI], uris[i] = res, res.URI
	}
	body, err := json.Marshal(uris)
	if err != nil {
		return err
	}
	free, _, err := r.s.Mirror.Free(ctx)
	if err != nil {
		return err
	}
	most := int64(min(free/2, 1<<62)) / int64(r.workers) // each may have one, and its members need as much again
	if r.s.Means.MaxDump > 0 {
		most = min(most, r.s.Means.MaxDump)
	}
	spool, err := r.s.Mirror.Spool(ctx, fmt.Sprintf("%016x", rows[0].ID)) // nobody else has that row in flight
	if errors.Is(err, blob.ErrExists) {
		return nil // but others still wait for the answer that it was in before
	}
	if err != nil {
		return err
	}
	pack := NewPackage(r.s.Means.Batch, answer{spool}, nil, r.s.Log)
	defer pack.Seal()
	if err := spool.Reset(); err != nil {
		return err
	}
	req := fetch.Request{URL: r.s.Means.Batch, Policy: r.s.Means.Policy, JSON: body, MaxBytes: max(most, 1)}
	res, err := r.s.Means.Client.Download(ctx, req, spool, fetch.DownloadOptions{DeclaredLength: -1})
	r.tallied(func(t *tally) { t.sum.Batches += int64(res.Requests) })
	if err != nil {
		return err
	}
	pack.zip, err = rspack.Open(spool, spool.Size(), rspack.Limits{Members: membersMost})
	if err != nil {
		return err
	}
	return r.offerAll(pack, byURI)
}

// offerAll offers what the manifest of an answer describes. The answer is to the want: it counts as learnt from it.
func (r *Reconciler) offerAll(pack *Package, byURI map[string]*store.Resource) error {
	in, err := pack.Manifest()
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // read
	doc := rsdoc.NewReader(io.LimitReader(in, manifestMost), rsdoc.Options{Assume: rsdoc.KindResourceDumpManifest})
	for {
		e, err := doc.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		res := byURI[e.Loc]
		if res == nil || e.Path == "" {
			continue
		}
		m, err := pack.zip.Find(e.Path)
		if err != nil {
			pack.spoilt.Add(1)
			continue
		}
		c := parsed.Selection{}.ContentOf(e)
		r.s.HandOffered([]*store.Resource{res}, []*Offer{{
			Package: pack, Member: m, Digests: c.Digests, Length: c.Length, LastMod: c.LastMod,
			Version: merge.Effective(res.Wants).Version,
		}})
	}
}
