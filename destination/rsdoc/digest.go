package rsdoc

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
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
