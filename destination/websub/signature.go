package websub

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // what many hubs sign with (S-83); the operator may forbid it
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
)

// SignatureHeader carries the signature of distributed content.
const SignatureHeader = "X-Hub-Signature"

// Method is the hash under a signature; a greater one is stronger.
type Method uint8

// MethodNone, as the weakest accepted one, accepts all four.
const (
	MethodNone Method = iota
	SHA1
	SHA256
	SHA384
	SHA512
)

// The errors of VerifySignature.
var (
	ErrUnsigned = errors.New("content is not signed")
	ErrWeak     = errors.New("signature method is weaker than allowed")
	ErrMismatch = errors.New("signature does not fit the content")
)

var methods = [...]struct {
	name string
	new  func() hash.Hash
}{{"none", nil}, {"sha1", sha1.New}, {"sha256", sha256.New}, {"sha384", sha512.New384}, {"sha512", sha512.New}}

// ParseMethod reads a name in any letter case.
func ParseMethod(name string) (Method, bool) {
	for m := SHA1; m <= SHA512; m++ {
		if strings.EqualFold(methods[m].name, name) {
			return m, true
		}
	}
	return MethodNone, false
}

// String returns the name in lower case, "none" for MethodNone.
func (m Method) String() string {
	if m > SHA512 {
		m = MethodNone
	}
	return methods[m].name
}

func (m Method) mac(secret string, body []byte) []byte {
	h := hmac.New(methods[m].new, []byte(secret))
	h.Write(body)
	return h.Sum(nil)
}

// Sign returns the value of X-Hub-Signature for the bytes on the wire; "" for no method.
func Sign(m Method, secret string, body []byte) string {
	if m == MethodNone || m > SHA512 {
		return ""
	}
	return m.String() + "=" + hex.EncodeToString(m.mac(secret, body))
}

// VerifySignature returns nil if a holder of the secret signed exactly these bytes with weakest or better (S-80 to
// S-83). Otherwise the error wraps ErrUnsigned for an empty header, ErrWeak, or ErrMismatch.
//
// An empty secret proves nothing and is ErrUnsigned: the caller ignores a header where no secret was agreed on (S-86).
func VerifySignature(header, secret string, body []byte, weakest Method) error {
	header = strings.Trim(header, blanks)
	switch {
	case secret == "":
		return fmt.Errorf("%w: no secret was agreed on", ErrUnsigned)
	case header == "":
		return fmt.Errorf("%w: no %s", ErrUnsigned, SignatureHeader)
	}
	name, digits, ok := strings.Cut(header, "=")
	if !ok {
		return fmt.Errorf("%w: %s is no method=hex", ErrMismatch, SignatureHeader)
	}
	m, ok := ParseMethod(name)
	switch {
	case !ok:
		return fmt.Errorf("%w: unknown method %q", ErrMismatch, shorten(name, 20))
	case m < weakest:
		return fmt.Errorf("%w: %s, at least %s is asked for", ErrWeak, m, weakest)
	}
	// Our digest bounds the work, not their header.
	if len(digits) != hex.EncodedLen(methods[m].new().Size()) {
		return fmt.Errorf("%w: %d characters are no %s", ErrMismatch, len(digits), m)
	}
	claimed, err := hex.DecodeString(digits)
	if err != nil {
		return fmt.Errorf("%w: its %s is not hexadecimal", ErrMismatch, m)
	}
	if !hmac.Equal(claimed, m.mac(secret, body)) {
		return fmt.Errorf("%w: another secret, or other bytes (%s)", ErrMismatch, m)
	}
	return nil
}
