package rsdoc

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func pack(t *testing.T, parts ...string) string {
	t.Helper()
	var b bytes.Buffer
	for _, p := range parts {
		w := gzip.NewWriter(&b)
		if _, err := io.WriteString(w, p); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestOpenGzip(t *testing.T) {
	t.Parallel()
	doc := "\xEF\xBB\xBF" + string(longList(300))
	want := dump(readAll(doc, Options{}))
	for name, packed := range map[string]string{
		"one member":      pack(t, doc),
		"three members":   pack(t, doc[:1], doc[1:5000], doc[5000:]),
		"packed twice":    pack(t, pack(t, doc)),
		"not packed":      doc,
		"an empty member": pack(t, doc, ""),
	} {
		for way, open := range map[string]func() (*Reader, error){
			"reader":       func() (*Reader, error) { return Open(strings.NewReader(packed), Options{}) },
			"byte by byte": func() (*Reader, error) { return Open(iotest.OneByteReader(strings.NewReader(packed)), Options{}) },
			"bytes":        func() (*Reader, error) { return OpenBytes([]byte(packed), Options{}) },
		} {
			if got := dump(collect(open())); got != want {
				t.Errorf("%s, %s: reads otherwise: %.300s", name, way, got)
			}
		}
	}
}

func TestOpenDamaged(t *testing.T) {
	t.Parallel()
	doc := string(longList(300))
	packed := pack(t, doc)
	flip := func(i int) string {
		b := []byte(packed)
		b[i] ^= 0xFF
		return string(b)
	}
	cases := []struct {
		name, in string
		limits   Limits
		want     Problem
	}{
		{"cut at the end", packed[:len(packed)-1], Limits{}, Truncated},
		{"cut in the middle", packed[:len(packed)/2], Limits{}, Truncated},
		{"cut in the header", packed[:5], Limits{}, Truncated},
		{"only the magic", packed[:2], Limits{}, Truncated},
		{"wrong checksum", flip(len(packed) - 6), Limits{}, Malformed},
		{"wrong length", flip(len(packed) - 1), Limits{}, Malformed},
		{"unknown method", flip(2), Limits{}, Malformed},
		{"garbage behind", packed + "garbage behind the stream", Limits{}, Malformed},
		{"packed three times", pack(t, pack(t, packed)), Limits{}, Malformed},
		{"document cut before packing", pack(t, doc[:5000]), Limits{}, Truncated},
		{"bomb", pack(t, urlset+strings.Repeat(" ", 1<<20)+"</urlset>"), Limits{Bytes: 1 << 16}, Limit},
		{"bomb in a bomb", pack(t, pack(t, urlset+strings.Repeat(" ", 1<<20)+"</urlset>")), Limits{Bytes: 1 << 16}, Limit},
	}
	for _, c := range cases {
		for way, open := range map[string]func() (*Reader, error){
			"reader": func() (*Reader, error) { return Open(strings.NewReader(c.in), Options{Limits: c.limits}) },
			"bytes":  func() (*Reader, error) { return OpenBytes([]byte(c.in), Options{Limits: c.limits}) },
		} {
			if err := collect(open()).Err; problemOf(err) != c.want {
				t.Errorf("%s, %s: %v, want %s", c.name, way, err, c.want)
			}
		}
	}
	broken := errors.New("broken")
	for _, cut := range []int{0, 1, 7, len(packed) / 2} {
		err := collect(Open(io.MultiReader(strings.NewReader(packed[:cut]), errReader{broken}), Options{})).Err
		if !errors.Is(err, broken) || problemOf(err) != 0 {
			t.Errorf("reader broken at byte %d: %v", cut, err)
		}
	}
}

// The limit of bytes is exact.
func TestByteLimit(t *testing.T) {
	t.Parallel()
	doc := string(longList(50))
	n := int64(len(doc))
	for way, d := range readings(doc, Options{Limits: Limits{Bytes: n}}) {
		if d.Err != nil {
			t.Errorf("%s: %v", way, d.Err)
		}
	}
	for way, d := range readings(doc, Options{Limits: Limits{Bytes: n - 1}}) {
		if problemOf(d.Err) != Limit {
			t.Errorf("%s: %v", way, d.Err)
		}
	}
}
