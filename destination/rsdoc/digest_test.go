package rsdoc

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/destination/fuzztest"
)

func TestParseDigests(t *testing.T) {
	t.Parallel()
	five, sha := md5.Sum([]byte("a")), sha256.Sum256([]byte("a"))
	fiveHex, shaHex := hex.EncodeToString(five[:]), hex.EncodeToString(sha[:])
	other := strings.Repeat("0", 64)
	std, raw, url := base64.StdEncoding, base64.RawStdEncoding, base64.RawURLEncoding
	high := slices.Repeat([]byte{0xFB, 0xEF, 0xFF}, 11)[:32] // + and / in every group
	cases := []struct {
		name, in string
		want     []string
		bad      int
	}{
		{"nothing", " \n\t ", nil, 0},
		{"two with a line break", "md5:" + fiveHex + " \n                   sha-256:" + shaHex, []string{"sha-256:" + shaHex, "md5:" + fiveHex}, 0},
		{"names in any case, no hyphen", "MD5:" + strings.ToUpper(fiveHex) + " Sha256:" + shaHex, []string{"sha-256:" + shaHex, "md5:" + fiveHex}, 0},
		{"all, strongest first", "sha-1:" + strings.Repeat("1", 40) + " md5:" + fiveHex + " sha512:" + strings.Repeat("5", 128) + " sha-256:" + shaHex + " SHA384:" + strings.Repeat("3", 96),
			[]string{"sha-512:" + strings.Repeat("5", 128), "sha-384:" + strings.Repeat("3", 96), "sha-256:" + shaHex, "sha-1:" + strings.Repeat("1", 40), "md5:" + fiveHex}, 0},
		{"base64", "md5:" + std.EncodeToString(five[:]), []string{"md5:" + fiveHex}, 0},
		{"base64 without padding", "md5:" + raw.EncodeToString(five[:]), []string{"md5:" + fiveHex}, 0},
		{"base64 with + and /", "sha-256:" + std.EncodeToString(high), []string{"sha-256:" + hex.EncodeToString(high)}, 0},
		{"base64url", "sha-256:" + url.EncodeToString(high), []string{"sha-256:" + hex.EncodeToString(high)}, 0},
		{"alphabets mixed", "sha-256:" + strings.Replace(std.EncodeToString(high), "+", "-", 1), nil, 1},
		{"stray bits at the end", "md5:" + raw.EncodeToString(five[:])[:21] + "x", nil, 1},
		{"too much padding", "md5:" + raw.EncodeToString(five[:]) + "===", nil, 1},
		{"half the padding", "md5:" + raw.EncodeToString(five[:]) + "=", nil, 1},
		{"hex too short", "sha-256:" + shaHex[:62], nil, 1},
		{"hex of another algorithm", "sha-256:" + fiveHex, nil, 1},
		{"no hex", "md5:" + fiveHex[:31] + "g", nil, 1},
		{"the samples' nonsense", "md5:suminhere", nil, 1},
		{"unknown algorithms", "crc32:00000000 sha-224:00 sha-512/256:00 sha:00 sha-:00 shake:1 tiger:x", nil, 0},
		{"no algorithm", fiveHex + " :" + fiveHex, nil, 2},
		{"space behind the colon", "md5: " + fiveHex, nil, 2},
		{"the same twice", "md5:" + fiveHex + " md5:" + std.EncodeToString(five[:]), []string{"md5:" + fiveHex}, 0},
		{"two that differ", "sha-256:" + shaHex + " md5:" + fiveHex + " sha256:" + other, []string{"md5:" + fiveHex}, 2},
		{"three of which two differ", "sha-256:" + shaHex + " sha256:" + other + " sha-256:" + shaHex, nil, 3},
		{"one good, one bad", "sha-256:xyz sha-256:" + shaHex, []string{"sha-256:" + shaHex}, 1},
	}
	for _, c := range cases {
		got, bad := parseDigests(c.in, nil)
		if diff := cmp.Diff(c.want, digestStrings(got)); diff != "" || bad != c.bad {
			t.Errorf("%s: bad = %d, want %d; digests (-want +got):\n%s", c.name, bad, c.bad, diff)
		}
		kept := []Digest{{Alg: SHA1}}
		got, _ = parseDigests(c.in, kept)
		if len(got) == 0 || got[0] != kept[0] || !cmp.Equal(c.want, digestStrings(got[1:])) {
			t.Errorf("%s: does not append", c.name)
		}
	}
}

func digestStrings(ds []Digest) (out []string) {
	for _, d := range ds {
		out = append(out, d.String())
	}
	return out
}

func TestParseDigest(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "md5", "md5:", "sha-224:00", "md5:00 md5:00", "sha-256:" + strings.Repeat("0", 63)} {
		if d, err := ParseDigest(in); err == nil || d != (Digest{}) {
			t.Errorf("ParseDigest(%q) = %v, %v; want an error", in, d, err)
		}
	}
	var none Digest
	if none.String() != "" || none.New() != nil || len(none.Bytes()) != 0 {
		t.Error("the zero digest is something")
	}
}

// What String writes ParseDigest reads, and a computed sum gives the digest that its notation gives.
func TestDigestLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := drawDigest(t)
		if back, err := ParseDigest(d.String()); err != nil || back != d {
			t.Fatalf("%s is read as %s, %v", d, back, err)
		}
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		h := d.New()
		h.Write(body)
		sum := Digest{Alg: d.Alg}
		if copy(sum.Sum[:], h.Sum(nil)); len(sum.Bytes()) != h.Size() {
			t.Fatalf("%s has %d bytes", d.Alg, len(sum.Bytes()))
		}
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
			if back, err := ParseDigest(d.Alg.String() + ":" + enc.EncodeToString(sum.Bytes())); err != nil || back != sum {
				t.Fatalf("base64 of %s is read as %s, %v", sum, back, err)
			}
		}
	})
}

func drawDigest(t *rapid.T) Digest {
	alg := Algorithm(rapid.IntRange(int(MD5), int(SHA512)).Draw(t, "algorithm"))
	d := Digest{Alg: alg}
	copy(d.Sum[:], rapid.SliceOfN(rapid.Byte(), alg.Size(), alg.Size()).Draw(t, "sum"))
	return d
}

func FuzzParseDigests(f *testing.F) {
	f.Add("md5:1584abdf8ebdc9802ac0c6a7402c03b6 \n sha-256:854f61290e2e197a11bc91063afce22e43f8ccc655237050ace766adc68dc784")
	f.Add("sha-256:f4OxZX_x_FO5LcGBSKHWXfwtSx-j1ncoSt3SABJtkGk md5:1B2M2Y8AsgTpgAmY7PhCfg== md5:")
	f.Fuzz(func(t *testing.T, s string) {
		fuzztest.Bound(t)
		got, bad := parseDigests(s, nil)
		words := len(strings.FieldsFunc(s, func(r rune) bool { return r < 0x80 && isSpace(byte(r)) }))
		if len(got)+bad > words {
			t.Fatalf("%q: %d digests and %d bad out of %d words", s, len(got), bad, words)
		}
		if !slices.IsSortedFunc(got, func(a, b Digest) int { return int(b.Alg) - int(a.Alg) }) {
			t.Fatalf("%q: not strongest first: %v", s, got)
		}
		again, none := parseDigests(strings.Join(digestStrings(got), " "), nil)
		if none != 0 || !slices.Equal(again, got) {
			t.Fatalf("%q: %v is read back as %v", s, got, again)
		}
	})
}

// The table is spelt out as a constant; here it is compared with what it means.
func TestTables(t *testing.T) {
	t.Parallel()
	if len(nameClasses) != 256 {
		t.Fatalf("a table of %d bytes", len(nameClasses))
	}
	for i := range 256 {
		c := byte(i)
		hexWant := byte(255)
		if n := strings.IndexByte("0123456789abcdef", lower(c)); n >= 0 {
			hexWant = byte(n)
		}
		class := noName
		switch {
		case c >= 0x80:
			class = isWide
		case c == ':':
			class = isColon
		case c == '-' || c == '.' || isDigit(c):
			class = isNameRest
		case c == '_' || 'a' <= lower(c) && lower(c) <= 'z':
			class = isNameStart
		}
		if hexDigit(c) != hexWant || int(nameClasses[c]) != class {
			t.Errorf("byte %#x: hex value %d, class %d; want %d, %d", c, hexDigit(c), nameClasses[c], hexWant, class)
		}
	}
}
