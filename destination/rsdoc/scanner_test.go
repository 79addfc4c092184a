package rsdoc

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// Text is what XML says it is, wherever the pieces of the input end.
func TestText(t *testing.T) {
	t.Parallel()
	const value = "x\r\ny&#10;z\t&#9;" // takes every turn of normalisation
	cases := []struct{ in, want string }{
		{"a\r\nb\rc\nd", "a\nb\nc\nd"},
		{"a\r<![CDATA[\nb\r\nc\r]]>\nd", "a\n\nb\nc\n\nd"},
		{"&#13;&#xd;\r\n", "\r\r\n"},
		{"]]&gt;<![CDATA[]]]]><![CDATA[>]]>", "]]>]]>"},
		{"&amp;lt;&lt;", "&lt;<"},
		{" <!-- x --> é<?p?>&#x65E5; ", "  é日 "},
		{strings.Repeat("]", 50) + "&amp;" + strings.Repeat("é", 9000), strings.Repeat("]", 50) + "&" + strings.Repeat("é", 9000)},
	}
	for _, c := range cases {
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"whole":        func(r io.Reader) io.Reader { return r },
			"byte by byte": iotest.OneByteReader,
			"halves":       iotest.HalfReader,
		} {
			limits := Limits{}.withDefaults()
			s := scanner{window: window{src: wrap(strings.NewReader("<a b='" + value + "'>" + c.in + "</a>")), limit: limits.Bytes}, limits: limits}
			if tok, err := s.next(); tok != tokStart || err != nil {
				t.Fatal(tok, err)
			}
			if got, want := string(s.attrs[0].value), "x y\nz \t"; got != want {
				t.Errorf("%s: the value is %q, want %q", name, got, want)
			}
			s.collect = true
			if tok, err := s.next(); tok != tokEnd || err != nil {
				t.Fatal(tok, err)
			}
			if got := string(s.text); got != c.want {
				t.Errorf("%s: %q is %q, want %q", name, c.in, got, c.want)
			}
			if tok, err := s.next(); tok != tokEOF || err != nil {
				t.Fatal(tok, err)
			}
		}
	}
}
