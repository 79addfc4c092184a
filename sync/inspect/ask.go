package inspect

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"net/http"
	"strings"
	"time"

	"resyncd/destination/fetch"
	"resyncd/store"
)

// asked is what the Source answered about a resource.
type asked struct {
	there bool
	sum   [32]byte
}

// sink hashes a body that is kept nowhere.
type sink struct{ hash.Hash }

// Reset implements fetch.Sink.
func (s sink) Reset() error {
	s.Hash.Reset()
	return nil
}

// validFor is how long after its Last-Modified a body must have been fetched for its ETag to tell it from the next one:
// servers make strong ETags of seconds, and their clocks are not ours.
const validFor = store.Micros(10 * 60 * 1e6)

// ask asks the Source for a resource, past caches. The file at hand spares the body where an ETag stands for its bytes.
func (p *pass) ask(ctx context.Context, uri string, e *expected, row *store.Resource, f *file) (asked, error) {
	req := fetch.Request{URL: uri, Policy: p.Policy, NoCache: true, InScope: e.scope, MaxBytes: p.MaxResource}
	if row != nil && f.is(row.Have.SHA256) {
		at, err := http.ParseTime(row.Have.LastModified)
		if err == nil && row.Have.Fetched-store.MicrosOf(at) >= validFor && strings.HasPrefix(row.Have.ETag, `"`) {
			req.ETag = row.Have.ETag
		}
	}
	length := int64(-1)
	for _, w := range e.words {
		length = max(length, w.Length)
	}
	var got asked
	err := p.patiently(ctx, func() error {
		if !f.there { // whether it is there is all that counts
			resp, err := p.Client.Get(ctx, req)
			if err == nil {
				got.there = true
				_ = resp.Body.Close()
			}
			return err
		}
		body := sink{sha256.New()}
		res, err := p.Client.Download(ctx, req, body, fetch.DownloadOptions{DeclaredLength: length})
		if fetch.KindOf(err) == fetch.Broken && length >= 0 { // the length is that of a list
			length = -1
			_ = body.Reset()
			res, err = p.Client.Download(ctx, req, body, fetch.DownloadOptions{DeclaredLength: -1})
		}
		if err != nil {
			return err
		}
		if got.there = true; res.NotModified {
			got.sum = f.sum
		} else {
			body.Sum(got.sum[:0])
		}
		return nil
	})
	if fetch.KindOf(err) == fetch.Gone {
		return asked{}, nil
	}
	return got, err
}

// patiently tries again what may pass, for as long as is configured.
func (p *pass) patiently(ctx context.Context, try func() error) error {
	until := time.Now().Add(p.RetryFor)
	for {
		err := try()
		wait := time.Second
		switch fetch.KindOf(err) {
		case fetch.Throttled, fetch.Transient, fetch.Stalled:
			if e, ok := errors.AsType[*fetch.Error](err); ok {
				wait = max(wait, e.RetryAfter)
			}
		default:
			return err
		}
		if time.Now().Add(wait).After(until) {
			return err
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		case <-t.C:
		}
	}
}
