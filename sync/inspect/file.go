package inspect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"strings"
	"time"

	"resyncd/destination/feed"
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

// Check compares a resource's file with its row, without the Source; nil when it is right.
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
	case errors.Is(err, blob.ErrNotFound), errors.Is(err, blob.ErrParentNotFolder):
		return f, nil
	case errors.Is(err, blob.ErrNotRegular):
		f.there, f.odd, f.length = true, "not a regular file", -1
		return f, nil
	case err != nil && (ctx.Err() != nil || blob.Systemic(err) && !errors.Is(err, blob.ErrIO)):
		return nil, err
	case err != nil:
		f.there, f.odd, f.length = true, "unreadable: "+err.Error(), -1
		return f, nil
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
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		f.odd, f.length = "unreadable: "+err.Error(), -1
		return f, nil
	}
	own.Sum(f.sum[:0])
	for alg, h := range hashes {
		f.sums[alg] = alg + ":" + hex.EncodeToString(h.Sum(nil))
	}
	f.text = []byte(text.String())
	return f, nil
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

// tells reports whether a record's file has what an edit says, or something newer in each of its fields.
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
			Author   *string `json:"author"`
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
		author := ""
		if have.Author != nil {
			author = *have.Author
		}
		// Of equal age the greater author, then the greater value stands (contract of feed.Merge).
		switch d := at.Compare(e.Observed); {
		case d < 0, d == 0 && author < e.Author, d == 0 && author == e.Author && have.Value < want.Value:
			return false
		}
	}
	return true
}
