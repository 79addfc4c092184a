package source

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"resyncd/destination/rsdoc"
)

const upperHex = "0123456789ABCDEF"

// escapeName makes the path of a URI from a name. It escapes what a client, a proxy or a file system might treat as
// special (F80, F81).
func escapeName(name string) string {
	b := make([]byte, 0, len(name))
	for i := range len(name) {
		if c := name[i]; plainByte(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return string(b)
}

func plainByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("/-._~+,=@()", c) >= 0
}

// requestName is the name that a request asks for. Escaped slashes, empty segments, dots and NUL are refused.
func requestName(u *url.URL) (string, bool) {
	p, ok := strings.CutPrefix(u.EscapedPath(), "/")
	if !ok {
		return "", false
	}
	segments := strings.Split(p, "/")
	for i, s := range segments {
		s, err := url.PathUnescape(s)
		if err != nil || !validSegment(s) {
			return "", false
		}
		segments[i] = s
	}
	return strings.Join(segments, "/"), true
}

func validSegment(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/\x00")
}

func validName(name string) bool {
	for s := range strings.SplitSeq(name, "/") {
		if !validSegment(s) {
			return false
		}
	}
	return !reservedName(name)
}

// reserved reports the names that no resource of this Source can have.
func (s *Source) reserved(name string) bool {
	return reservedName(name) ||
		s.recordFeed != nil && (name == recordFeed || strings.HasPrefix(name, recordFeedArchive))
}

// reservedName reports the names of the Source's own documents.
func reservedName(name string) bool {
	return name == wellKnown || name == documents || strings.HasPrefix(name, documents+"/")
}

// mediaType guesses from the name; made-up resources are text. It has no parameters, which the schema of rs:md does not
// allow [6].
func (s *Source) mediaType(name string) string {
	if s.options.Synthetic != nil {
		return "text/plain"
	}
	if t, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(name)), ";"); t != "" {
		return t
	}
	return "application/octet-stream"
}

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

var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// fill reads r to its end and sets the length and the sums of rec. SHA-256 is always computed: it is the ETag.
func (s *Source) fill(rec *record, r io.Reader) error {
	main := sha256.New()
	all := []io.Writer{main}
	var others []hash.Hash
	for _, a := range s.options.Hashes {
		if a != rsdoc.SHA256 {
			h := a.New()
			all, others = append(all, h), append(others, h)
		}
	}
	buf := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buf)
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

// appendDigests adds the published digests of rec to dst, in the order asked for.
func (s *Source) appendDigests(dst []rsdoc.Digest, rec *record) []rsdoc.Digest {
	sums := rec.sums
	for _, a := range s.options.Hashes {
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
