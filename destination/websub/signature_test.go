package websub

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"resyncd/destination/fuzztest"
)

var four = [...]Method{SHA1, SHA256, SHA384, SHA512}

// Digests of the body "what do ya want for nothing?" under the key "Jefe" (RFC 2202 3, RFC 4231 4.3).
var known = map[Method]string{
	SHA1:   "sha1=effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
	SHA256: "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
	SHA384: "sha384=af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649",
	SHA512: "sha512=164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
}

const (
	jefe = "Jefe"
	want = "what do ya want for nothing?"
)

func TestSignKnownAnswers(t *testing.T) {
	t.Parallel()
	for m, value := range known {
		if got := Sign(m, jefe, []byte(want)); got != value {
			t.Errorf("%s: %s", m, got)
		}
		for _, v := range []string{value, strings.ToUpper(value), " " + value + "\t"} {
			if err := VerifySignature(v, jefe, []byte(want), m); err != nil {
				t.Errorf("%q: %v", v, err)
			}
		}
	}
	if s := Sign(MethodNone, jefe, nil) + Sign(9, jefe, nil); s != "" {
		t.Errorf("no method signs %q", s)
	}
}

func TestVerifySignatureRefuses(t *testing.T) {
	t.Parallel()
	good := known[SHA256]
	for name, tc := range map[string]struct {
		header, secret, body string
		weakest              Method
		want                 error
	}{
		"missing":          {"", jefe, want, SHA1, ErrUnsigned},
		"blank":            {" \t ", jefe, want, SHA1, ErrUnsigned},
		"no secret":        {good, "", want, SHA1, ErrUnsigned},
		"key of no bytes":  {Sign(SHA256, "", []byte(want)), "", want, SHA1, ErrUnsigned},
		"other secret":     {good, "jefe", want, SHA1, ErrMismatch},
		"other body":       {good, jefe, want + "\n", SHA1, ErrMismatch},
		"weak":             {known[SHA1], jefe, want, SHA256, ErrWeak},
		"weak and wrong":   {known[SHA1], "x", want, SHA256, ErrWeak},
		"weaker":           {good, jefe, want, SHA384, ErrWeak},
		"unknown method":   {"md5=750c783e6ab0b503eaa86e310a5db738", jefe, want, MethodNone, ErrMismatch},
		"none":             {"none=", jefe, want, MethodNone, ErrMismatch},
		"no method":        {strings.TrimPrefix(good, "sha256"), jefe, want, MethodNone, ErrMismatch},
		"dash":             {"sha-256" + strings.TrimPrefix(good, "sha256"), jefe, want, MethodNone, ErrMismatch},
		"bare hex":         {strings.TrimPrefix(good, "sha256="), jefe, want, MethodNone, ErrMismatch},
		"method alone":     {"sha256", jefe, want, MethodNone, ErrMismatch},
		"no digits":        {"sha256=", jefe, want, MethodNone, ErrMismatch},
		"bad hex":          {"sha256=" + strings.Repeat("zz", 32), jefe, want, MethodNone, ErrMismatch},
		"short":            {good[:len(good)-2], jefe, want, MethodNone, ErrMismatch},
		"odd":              {good[:len(good)-1], jefe, want, MethodNone, ErrMismatch},
		"long":             {good + "00", jefe, want, MethodNone, ErrMismatch},
		"another's length": {"sha256" + known[SHA512][len("sha512"):], jefe, want, MethodNone, ErrMismatch},
		"two":              {good + ", " + good, jefe, want, MethodNone, ErrMismatch},
		"huge":             {"sha256=" + strings.Repeat("a", 1<<20), jefe, want, MethodNone, ErrMismatch},
		"huge method":      {strings.Repeat("\x1b", 1<<20) + "=00", jefe, want, MethodNone, ErrMismatch},
	} {
		err := VerifySignature(tc.header, tc.secret, []byte(tc.body), tc.weakest)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s := err.Error(); len(s) > 300 || strings.ContainsRune(s, '\x1b') || tc.secret != "" && strings.Contains(s, tc.secret) {
			t.Errorf("%s: a message that is no message: %.400q", name, s)
		}
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	for _, m := range four {
		if got, ok := ParseMethod(strings.ToUpper(m.String())); !ok || got != m {
			t.Errorf("%s: %s %v", m, got, ok)
		}
	}
	for _, s := range []string{"", "none", "md5", "sha-1", "sha224"} {
		if m, ok := ParseMethod(s); ok || m != MethodNone {
			t.Errorf("%q: %s", s, m)
		}
	}
	if MethodNone.String() != "none" || Method(77).String() != "none" {
		t.Error("names")
	}
}

// A signature verifies for exactly its secret, its bytes and every bound up to its method.
func TestSignatureLaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, bound := rapid.SampledFrom(four[:]).Draw(t, "method"), rapid.SampledFrom(four[:]).Draw(t, "bound")
		secret := rapid.StringN(1, 199, -1).Draw(t, "secret")
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		header := Sign(m, secret, body)
		if err := VerifySignature(header, secret, body, bound); (err == nil) != (m >= bound) {
			t.Fatalf("%s under %s: %v", m, bound, err)
		}
		if err := VerifySignature(header, secret, append(body, 0), MethodNone); !errors.Is(err, ErrMismatch) {
			t.Fatalf("longer body: %v", err)
		}
		if err := VerifySignature(header, secret+"x", body, MethodNone); !errors.Is(err, ErrMismatch) {
			t.Fatalf("other secret: %v", err)
		}
	})
}

func FuzzVerifySignature(f *testing.F) {
	for _, v := range known {
		f.Add(v, []byte(want))
	}
	f.Add("sha256=", []byte{})
	f.Add("=", []byte{})
	f.Add("SHA1 = 00", []byte("x"))
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		fuzztest.Bound(t)
		err := VerifySignature(header, jefe, body, MethodNone)
		if err == nil {
			name, _, _ := strings.Cut(strings.TrimSpace(header), "=")
			m, ok := ParseMethod(name)
			if !ok || !strings.EqualFold(strings.TrimSpace(header), Sign(m, jefe, body)) {
				t.Errorf("%q is taken for a signature of %q", header, body)
			}
			return
		}
		if !errors.Is(err, ErrUnsigned) && !errors.Is(err, ErrMismatch) {
			t.Errorf("%q: %v", header, err)
		}
	})
}
