package source

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"sync"

	"resyncd/destination/rsdoc"
)

// ParseHashes reads a list of algorithms divided by commas.
func ParseHashes(list string) ([]rsdoc.Algorithm, error) {
	known := []rsdoc.Algorithm{rsdoc.MD5, rsdoc.SHA1, rsdoc.SHA256, rsdoc.SHA384, rsdoc.SHA512}
	var out []rsdoc.Algorithm
	for name := range strings.SplitSeq(list, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		i := slices.IndexFunc(known, func(a rsdoc.Algorithm) bool { return a.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("hash %q: want md5, sha-1, sha-256, sha-384 or sha-512", name)
		}
		if !slices.Contains(out, known[i]) {
			out = append(out, known[i])
		}
	}
	return out, nil
}

// digester computes what is published about a body. SHA-256 is always computed: it is the ETag.
type digester struct {
	published []rsdoc.Algorithm
	buffers   sync.Pool
}

func newDigester(published []rsdoc.Algorithm) *digester {
	return &digester{published: published, buffers: sync.Pool{New: func() any { return new([64 << 10]byte) }}}
}

// fill reads r to its end and sets the length and the sums of rec.
func (d *digester) fill(rec *record, r io.Reader) error {
	main := sha256.New()
	all := []io.Writer{main}
	var others []hash.Hash
	for _, a := range d.published {
		if a != rsdoc.SHA256 {
			h := a.New()
			all, others = append(all, h), append(others, h)
		}
	}
	buf := d.buffers.Get().(*[64 << 10]byte)
	defer d.buffers.Put(buf)
	var err error
	// Without the struct, files would be copied through a buffer of their own.
	if rec.length, err = io.CopyBuffer(io.MultiWriter(all...), struct{ io.Reader }{r}, buf[:]); err != nil {
		return err
	}
	main.Sum(rec.sum[:0])
	var sums []byte
	for _, h := range others {
		sums = h.Sum(sums)
	}
	rec.sums = string(sums)
	return nil
}

// append adds the published digests of rec to dst, in the order asked for.
func (d *digester) append(dst []rsdoc.Digest, rec *record) []rsdoc.Digest {
	sums := rec.sums
	for _, a := range d.published {
		digest := rsdoc.Digest{Alg: a}
		if a == rsdoc.SHA256 {
			copy(digest.Sum[:], rec.sum[:])
		} else {
			copy(digest.Sum[:], sums[:a.Size()])
			sums = sums[a.Size():]
		}
		dst = append(dst, digest)
	}
	return dst
}
