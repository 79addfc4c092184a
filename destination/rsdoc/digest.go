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

// String is the name as the hash attribute writes it.
func (a Algorithm) String() string {
	switch a {
	case MD5:
		return "md5"
	case SHA1:
		return "sha-1"
	case SHA256:
		return "sha-256"
	case SHA384:
		return "sha-384"
	case SHA512:
		return "sha-512"
	}
	return ""
}

// Size is the number of bytes of a sum; 0 for None.
func (a Algorithm) Size() int {
	switch a {
	case MD5:
		return md5.Size
	case SHA1:
		return sha1.Size
	case SHA256:
		return sha256.Size
	case SHA384:
		return sha512.Size384
	case SHA512:
		return sha512.Size
	}
	return 0
}

// New starts a computation; nil for None.
func (a Algorithm) New() hash.Hash {
	switch a {
	case MD5:
		return md5.New()
	case SHA1:
		return sha1.New()
	case SHA256:
		return sha256.New()
	case SHA384:
		return sha512.New384()
	case SHA512:
		return sha512.New()
	}
	return nil
}

// Digest is one usable digest. Digests are comparable with ==; the zero value is no digest.
type Digest struct {
	Alg Algorithm
	Sum [64]byte
}

// Bytes is a copy of the sum, in the algorithm's size.
func (d Digest) Bytes() []byte { return d.Sum[:d.Alg.Size()] }

// String is "sha-256:hex" in lower case; "" for the zero value.
func (d Digest) String() string {
	if d.Alg.Size() == 0 {
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
	var conflict [SHA512 + 1]bool
	base := len(dst)
	for i := 0; i < len(s); {
		if isSpace(s[i]) {
			i++
			continue
		}
		from := i
		for i < len(s) && !isSpace(s[i]) {
			i++
		}
		dst = append(dst, Digest{})
		last := len(dst) - 1
		verdict := parseToken(s[from:i], &dst[last])
		if verdict != tokenUsable {
			dst = dst[:last]
			if verdict == tokenBad {
				bad++
			}
			continue
		}
		// Move it to its position by strength, and look for another one of its algorithm on the way.
		at := last
		for at > base && dst[at-1].Alg < dst[last].Alg {
			at--
		}
		switch alg := dst[last].Alg; {
		case at > base && dst[at-1].Alg == alg:
			if conflict[alg] || dst[at-1] != dst[last] {
				if bad++; !conflict[alg] {
					conflict[alg] = true
					bad++
				}
			}
			dst = dst[:last]
		case at < last:
			d := dst[last]
			copy(dst[at+1:], dst[at:last])
			dst[at] = d
		}
	}
	if conflict != [SHA512 + 1]bool{} {
		kept := slices.DeleteFunc(dst[base:], func(d Digest) bool { return conflict[d.Alg] })
		dst = dst[:base+len(kept)]
	}
	return dst, bad
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
	if foldEqual(s, "md5") || foldEqual(s, "md-5") {
		return MD5
	}
	if len(s) < 4 || !foldEqual(s[:3], "sha") {
		return None
	}
	s = s[3:]
	if s[0] == '-' {
		s = s[1:]
	}
	switch string(s) {
	case "1":
		return SHA1
	case "256":
		return SHA256
	case "384":
		return SHA384
	case "512":
		return SHA512
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
