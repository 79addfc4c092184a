package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"resyncd/destination/fetch"
	"resyncd/store"
)

// The bounds of a patch and of what it is applied to, one at a time: values take many times the room of their text.
// The module parses level by level, lets copies grow, and recurses as deep as moves have nested: a stack that overflows
// would end the process.
const (
	patchMost  = 1 << 20  // bytes
	patchParts = 100_000  // values of JSON
	patchWork  = 1 << 30  // steps times bytes
	patchRoom  = 64 << 10 // that copies may add to any document
)

// IsPatch tells whether a media type is a patch that can be applied: JSON Patch, also by the name of its drafts.
func IsPatch(media string) bool {
	t, _, _ := mime.ParseMediaType(media)
	return t == "application/json-patch+json" || t == "application/json-patch"
}

// fromPatch makes the bytes out of the version that is in the mirror.
func (r *Reconciler) fromPatch(ctx context.Context, a *attempt, o *outcome) (res fetch.Result, err error) {
	old, err := r.copyOf(ctx, o.res)
	if err != nil {
		return res, err
	}
	var patch buffer
	if a.link == nil {
		_, err = a.offer.Package.zip.Read(a.offer.Patch, &patch)
	} else {
		err = r.askForPatch(a, o, &patch)
	}
	if err != nil {
		return res, err
	}
	select {
	case r.patching <- struct{}{}:
		defer func() { <-r.patching }()
	case <-a.ctx.Done():
		return res, context.Cause(a.ctx)
	}
	next, err := applyPatch(old, patch.Bytes())
	if err == nil {
		_, err = a.body.Write(next)
	}
	res.Type = o.want.Type
	return res, err
}

// copyOf are the bytes in the mirror, if they are still as their row says.
func (r *Reconciler) copyOf(ctx context.Context, res *store.Resource) ([]byte, error) {
	f, _, err := r.s.Mirror.Open(ctx, res.Key)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read
	old, err := io.ReadAll(io.LimitReader(f, patchMost))
	if err == nil && sha256.Sum256(old) != res.Have.SHA256 {
		err = errors.New("the file to be patched is not as the state says")
	}
	return old, err
}

func (r *Reconciler) askForPatch(a *attempt, o *outcome, to *buffer) error {
	req := r.request(o)
	req.URL, req.MaxBytes = a.link.Href, patchMost
	length := a.link.Length
	if length == 0 {
		length = -1
	}
	b := newBody(to, a.link.Hash)
	res, err := r.get(a, o, req, &b, length)
	if err == nil {
		_, err = b.check(&store.Want{Length: length}, &res)
	}
	return err
}

// buffer is a Sink in memory.
type buffer struct{ bytes.Buffer }

// Reset implements fetch.Sink.
func (b *buffer) Reset() error {
	b.Buffer.Reset()
	return nil
}

// applyPatch applies a JSON Patch. The result is compact with sorted keys: a form that the Source can give a digest of.
func applyPatch(doc, patch []byte) ([]byte, error) {
	doc = bytes.TrimSpace(doc)
	parts, depth := shape(doc)
	more, deeper := shape(patch)
	if parts+more > patchParts {
		return nil, fmt.Errorf("patch: more than %d values", patchParts)
	}
	ops, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	steps := depth + deeper + len(ops)
	for _, op := range ops {
		path, _ := op.Path()
		from, _ := op.From()
		steps += strings.Count(path, "/") + strings.Count(from, "/")
	}
	opt := jsonpatch.NewApplyOptions()
	opt.AccumulatedCopySizeLimit = int64(len(doc) + len(patch) + patchRoom)
	opt.EscapeHTML, opt.SupportNegativeIndices = false, false
	if int64(steps)*2*opt.AccumulatedCopySizeLimit > patchWork {
		return nil, fmt.Errorf("patch: too much for a document of %d bytes", len(doc))
	}
	if doc, err = ops.ApplyWithOptions(doc, opt); err != nil {
		return nil, fmt.Errorf("apply a patch: %w", err)
	}
	var v any
	in := json.NewDecoder(bytes.NewReader(doc))
	in.UseNumber()
	if err := in.Decode(&v); err != nil {
		return nil, fmt.Errorf("read the result of a patch: %w", err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err = enc.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// shape counts the values of a JSON text and how deep they nest, if it is valid.
func shape(text []byte) (parts, depth int) {
	open, inside := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inside && c == '\\':
			i++
		case c == '"':
			inside = !inside
		case inside:
		case c == '{' || c == '[':
			open++
			parts, depth = parts+1, max(depth, open)
		case c == '}' || c == ']':
			open--
		case c == ',':
			parts++
		}
	}
	return parts, depth
}
