package rsdoc

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
)

// Algorithm is a digest algorithm of the hash attribute [7]; a larger value is stronger.
type Algorithm uint8

// MD5 and SHA1 check a transfer; they identify nothing.
const (
	None Algorithm = iota
	MD5
	SHA1
	SHA256
	SHA384
	SHA512
)

var algorithms = [...]struct {
	name, other string // as the hash attribute writes it, and as others do
	size        int
	new         func() hash.Hash
}{
	None: {new: func() hash.Hash { return nil }},
	MD5:  {"md5", "md-5", md5.Size, md5.New}, SHA1: {"sha-1", "sha1", sha1.Size, sha1.New},
	SHA256: {"sha-256", "sha256", sha256.Size, sha256.New},
	SHA384: {"sha-384", "sha384", sha512.Size384, sha512.New384},
	SHA512: {"sha-512", "sha512", sha512.Size, sha512.New},
}

// String is the name as the hash attribute writes it.
func (a Algorithm) String() string { return algorithms[a.known()].name }

// known is None for what is no algorithm.
func (a Algorithm) known() Algorithm {
	if a > SHA512 {
		return None
	}
	return a
}

// Size is the number of bytes of a sum; 0 for None.
func (a Algorithm) Size() int { return algorithms[a.known()].size }

// New starts a computation; nil for None.
func (a Algorithm) New() hash.Hash { return algorithms[a.known()].new() }

// Digest is one usable digest. Digests are comparable with ==; the zero value is no digest.
type Digest struct {
	Alg Algorithm
	Sum [64]byte
}

// Bytes is a copy of the sum, in the algorithm's size.
func (d Digest) Bytes() []byte { return d.Sum[:d.Alg.Size()] }

// String is "sha-256:hex" in lower case; "" for the zero value.
func (d Digest) String() string {
	if d.Alg == None {
		return ""
	}
	var room [160]byte // on the stack: each listed resource has one
	text := append(room[:0], d.Alg.String()...)
	return string(hex.AppendEncode(append(text, ':'), d.Bytes()))
}

// New starts a computation; nil for the zero value.
func (d Digest) New() hash.Hash { return d.Alg.New() }

// ParseDigest reads one digest in any spelling that a hash attribute may have.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	switch parseToken(trimSpace(s), &d) {
	case tokenUsable:
		return d, nil
	case tokenUnknown:
		return Digest{}, fmt.Errorf("read the digest %s: the algorithm is none of "+
			"md5, sha-1, sha-256, sha-384, sha-512", quote(s))
	}
	return Digest{}, fmt.Errorf("read the digest %s: not algorithm:hex with a sum of the algorithm's length", quote(s))
}

// parseDigests parses a hash attribute [7] and appends the usable digests to dst, strongest first, one for each
// algorithm. A sum is hex of the right length, else base64 or base64url that decodes to the right length.
//
// bad counts the other tokens, except those of unknown algorithms. Where digests of one algorithm differ none can be
// believed, so all of them are bad (F49).
func parseDigests[T text](s T, dst []Digest) (digests []Digest, bad int) {
	var differ [len(algorithms)]int // how many of an algorithm cannot be believed
	base := len(dst)
	for i := 0; i < len(s); {
		from := i
		for i < len(s) && !isSpace(s[i]) {
			i++
		}
		if from == i {
			i++
			continue
		}
		at := len(dst)
		dst = append(dst, Digest{})
		if verdict := parseToken(s[from:i], &dst[at]); verdict != tokenUsable {
			dst = dst[:at]
			if verdict == tokenBad {
				bad++
			}
			continue
		}
		for ; at > base && dst[at-1].Alg < dst[at].Alg; at-- {
			dst[at-1], dst[at] = dst[at], dst[at-1]
		}
		if at == base || dst[at-1].Alg != dst[at].Alg {
			continue
		}
		if n := &differ[dst[at].Alg]; *n > 0 {
			*n++
		} else if dst[at] != dst[at-1] {
			*n = 2
		}
		dst = slices.Delete(dst, at, at+1)
	}
	if differ == [len(algorithms)]int{} {
		return dst, bad
	}
	for _, n := range differ {
		bad += n
	}
	good := slices.DeleteFunc(dst[base:], func(d Digest) bool { return differ[d.Alg] > 0 })
	return dst[:base+len(good)], bad
}

type tokenVerdict uint8

const (
	tokenBad     tokenVerdict = iota // no algorithm, or an unreadable sum
	tokenUnknown                     // an unsupported algorithm
	tokenUsable
)

// d must be zero, and is undefined unless the token is usable.
func parseToken[T text](s T, d *Digest) tokenVerdict {
	colon := 0
	for colon < len(s) && s[colon] != ':' {
		colon++
	}
	if colon == 0 || colon == len(s) {
		return tokenBad
	}
	d.Alg = algorithmOf(s[:colon])
	if d.Alg == None {
		return tokenUnknown
	}
	size, sum := d.Alg.Size(), []byte(s[colon+1:])
	if len(sum) == 2*size {
		if _, err := hex.Decode(d.Sum[:], sum); err == nil {
			return tokenUsable
		}
	} else if readBase64(sum, size, d.Sum[:]) {
		return tokenUsable
	}
	return tokenBad
}

func algorithmOf[T text](s T) Algorithm {
	for a := MD5; a <= SHA512; a++ {
		if foldEqual(s, algorithms[a].name) || foldEqual(s, algorithms[a].other) {
			return a
		}
	}
	return None
}

// readBase64 takes one alphabet throughout, the padding whole or absent, the bits after the last byte zero. Three of
// the four values of the specification's Example 27 fail here: they are no encodings of anything.
func readBase64(s []byte, size int, dst []byte) bool {
	chars := (size*8 + 5) / 6
	if len(s) != chars && (len(s) != (size+2)/3*4 || len(bytes.Trim(s[chars:], "=")) > 0) {
		return false
	}
	encoding := base64.RawStdEncoding
	if bytes.ContainsAny(s, "-_") {
		encoding = base64.RawURLEncoding
	}
	n, err := encoding.Strict().Decode(dst, s[:chars])
	return err == nil && n == size
}
