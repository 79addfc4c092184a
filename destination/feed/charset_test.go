package feed

import (
	"strings"
	"testing"

	"golang.org/x/net/html/charset"
)

func TestEncodings(t *testing.T) {
	t.Parallel()
	encode := func(label, s string) string {
		e, _ := charset.Lookup(label)
		if e == nil {
			t.Fatalf("no encoding %s", label)
		}
		out, err := e.NewEncoder().String(s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	doc := func(declared, title string) string {
		if declared != "" {
			declared = ` encoding="` + declared + `"`
		}
		return `<?xml version="1.0"` + declared + `?>` + "\n" + feedStart + "<title>" + title + "</title><entry><id>" + title + "</id></entry></feed>"
	}
	for _, c := range []struct{ name, contentType, doc, want string }{
		{"utf-8", "", doc("utf-8", "café"), "café"},
		{"nothing said", "", doc("", "café €"), "café €"},
		{"windows-1252", "", encode("windows-1252", doc("windows-1252", "café “€”")), "café “€”"},
		{"iso-8859-1", "application/xml", encode("windows-1252", doc("ISO-8859-1", "café")), "café"},
		{"iso-8859-15", "", encode("iso-8859-15", doc("iso-8859-15", "café €")), "café €"},
		{"koi8-r", "", encode("koi8-r", doc("koi8-r", "Привет")), "Привет"},
		{"gb2312", "", encode("gbk", doc("gb2312", "你好")), "你好"},
		{"shift_jis", "", encode("shift_jis", doc("Shift_JIS", "日本語")), "日本語"},
		{"euc-kr", "", encode("euc-kr", doc("euc-kr", "한국어")), "한국어"},
		{"utf-16 le", "", "\xff\xfe" + encode("utf-16le", doc("utf-16", "café 😀")), "café 😀"},
		{"utf-16 be", "", "\xfe\xff" + encode("utf-16be", doc("utf-16", "café")), "café"},
		{"utf-16 without mark", "", encode("utf-16le", doc("utf-16", "café")), "café"},
		{"utf-16be without mark", "application/xml; charset=utf-16", encode("utf-16be", doc("utf-16", "café")), "café"},
		{"utf-16 declared, utf-8 sent", "", doc("utf-16", "café"), "café"},
		{"utf-16 in the header, utf-8 sent", "text/xml; charset=utf-16", doc("", "café"), "café"},
		{"mark before all", "text/xml; charset=koi8-r", "\xef\xbb\xbf" + doc("iso-8859-1", "café"), "café"},
		{"header before declaration", `application/atom+xml;type=feed; Charset="KOI8-R"`, encode("koi8-r", doc("utf-8", "Привет")), "Привет"},
		{"header alone", "text/xml;charset=iso-8859-2", encode("iso-8859-2", doc("", "Łódź")), "Łódź"},
		{"unknown in the header", "text/xml; charset=klingon", encode("koi8-r", doc("koi8-r", "Привет")), "Привет"},
		{"unknown", "", doc("klingon", "café"), "café"},
		{"replacement", "", doc("iso-2022-kr", "café"), "café"},
		{"utf-8 declared, windows-1252 sent", "", encode("windows-1252", doc("utf-8", "café “€”")), "café “€”"},
		{"both mixed", "", doc("utf-8", "caf\xe9 café \xe2\x82"), "café café â‚"},
		{"utf-8 sent, another declared", "", doc("koi8-r", "café"), "cafц╘"},
		{"controls", "", doc("", "a\x00b\x0b\x1fc\ufffe\uffffd"), "abcd"},
		{"overlong and surrogates", "", doc("", "a\xc0\xafb\xed\xa0\x80"), "aÀ¯bí\u00a0€"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			head, entries, err := read(t, c.doc, Options{ContentType: c.contentType})
			if err != nil || keys(entries) != c.want {
				t.Errorf("%v, keys %q; want %q", err, keys(entries), c.want)
			}
			if Sniff(c.contentType, []byte(c.doc)) != Atom {
				t.Error("not sniffed")
			}
			if strings.Contains(c.name, "unknown") != (len(head.Problems) > 0) && c.name != "replacement" {
				t.Errorf("problems %q", head.Problems)
			}
			for _, e := range entries {
				sameAgain(t, e)
			}
		})
	}
}
