package inspect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"net/http"
	"strings"
	"time"

	"resyncd/destination/backoff"
	"resyncd/destination/feed"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/store/blob"
)

// file is what lies in the mirror under the key of a resource.
type file struct {
	there  bool
	odd    string // why its bytes cannot be read, "" if they were
	sum    [32]byte
	length int64
	sums   map[string]string // digests by algorithm, those that somebody asked for
	text   []byte            // of a record
}

// recordMost bounds a record's file that is read whole.
const recordMost = 64 << 20

// Check compares a resource's file with its row; nil when it is right.
func Check(ctx context.Context, m blob.Mirror, r *store.Resource) (*Finding, error) {
	f, err := look(ctx, m, r, nil)
	if err != nil || f.is(r.Have.SHA256) {
		return nil, err
	}
	return differs(r.URI, r, f, text(r.Have.SHA256)), nil
}

// look reads a resource's file: its SHA-256, and what else the words give.
func look(ctx context.Context, m blob.Mirror, row *store.Resource, words []*said) (*file, error) {
	f := &file{sums: map[string]string{}}
	if row == nil || row.Key == "" {
		return f, nil
	}
	in, info, err := m.Open(ctx, row.Key)
	switch {
	case blob.Missing(err):
		return f, nil
	case errors.Is(err, blob.ErrNotRegular):
		return &file{there: true, odd: "not a regular file", length: -1}, nil
	case err != nil:
		return unreadable(ctx, err)
	}
	defer func() { _ = in.Close() }() // it was read only
	own := sha256.New()
	hashes := map[string]hash.Hash{"sha-256": own}
	whole := false
	for _, w := range words {
		if d, err := rsdoc.ParseDigest(w.Digest); w.Digest != "" && err == nil && hashes[d.Alg.String()] == nil {
			hashes[d.Alg.String()] = d.New()
		}
		whole = whole || w.What == edit
	}
	var to []io.Writer
	for _, h := range hashes {
		to = append(to, h)
	}
	var text strings.Builder
	if whole && info.Length <= recordMost {
		to = append(to, &text)
	}
	f.there = true
	f.length, err = io.CopyBuffer(
		io.MultiWriter(to...), reading{ctx, in}, make([]byte, min(max(info.Length, 512), 128<<10)))
	if err != nil {
		return unreadable(ctx, err)
	}
	own.Sum(f.sum[:0])
	for alg, h := range hashes {
		f.sums[alg] = alg + ":" + hex.EncodeToString(h.Sum(nil))
	}
	f.text = []byte(text.String())
	return f, nil
}

// unreadable is a file that cannot be read, unless the reason lies with the whole mirror.
func unreadable(ctx context.Context, err error) (*file, error) {
	if ctx.Err() != nil || blob.Systemic(err) && !errors.Is(err, blob.ErrIO) {
		return nil, err
	}
	return &file{there: true, odd: "unreadable: " + err.Error(), length: -1}, nil
}

// reading ends with its context.
type reading struct {
	ctx context.Context
	in  io.Reader
}

func (r reading) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.in.Read(b)
}

// differs makes a finding of a file that is not what it should be.
func differs(uri string, row *store.Resource, f *file, want *string) *Finding {
	n := &Finding{URI: &uri, Problem: ProblemStale, Expected: want, Found: f.found()}
	if row != nil && row.Key != "" {
		n.Key = &row.Key
	}
	switch {
	case !f.there:
		n.Problem = ProblemMissing
	case row != nil && row.Have.State != store.HaveNone && !f.is(row.Have.SHA256):
		n.Problem = ProblemChanged
	}
	return n
}

// is tells whether the file has these bytes.
func (f *file) is(sum [32]byte) bool { return f.there && f.odd == "" && f.sum == sum }

// found is what a finding says of the file.
func (f *file) found() *string {
	if !f.there {
		return nil
	}
	if f.odd != "" {
		return &f.odd
	}
	return text(f.sum)
}

func text(sum [32]byte) *string {
	s := "sha-256:" + hex.EncodeToString(sum[:])
	return &s
}

// tells reports whether a record's file has what an edit says, or newer fields.
func (f *file) tells(b []byte) bool {
	e, err := feed.UnmarshalEdit(b)
	if err != nil || f.odd != "" {
		return false
	}
	var record struct {
		Subject string `json:"subject"`
		Fields  map[string]struct {
			Value    string  `json:"value"`
			Observed *string `json:"observed"`
			Author   string  `json:"author"` // "" for null
		} `json:"fields"`
	}
	if json.Unmarshal(f.text, &record) != nil || record.Subject != e.Subject {
		return false
	}
	for _, want := range e.Fields {
		have, ok := record.Fields[want.Name]
		if !ok {
			return false
		}
		var at time.Time
		if have.Observed != nil {
			if at, err = time.Parse(time.RFC3339, *have.Observed); err != nil {
				return false
			}
		}
		// Of equal age the greater author, then the greater value stands (contract of feed.Merge).
		switch d := at.Compare(e.Observed); {
		case d < 0, d == 0 && have.Author < e.Author,
			d == 0 && have.Author == e.Author && have.Value < want.Value:
			return false
		}
	}
	return true
}

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

// ask asks the Source for a resource, past caches. An ETag that stands for the file at hand spares the body.
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

// patiently tries again what may pass, as long as is configured.
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
		if err := backoff.Wait(ctx, wait); err != nil {
			return err
		}
	}
}
