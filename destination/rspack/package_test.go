package rspack

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"testing"
)

func TestSmoke(t *testing.T) {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for i := range 70000 {
		f, _ := w.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("a/%d b", i), Method: uint16(i % 2 * 8)})
		fmt.Fprintf(f, "hello %d", i)
	}
	f, _ := w.Create("manifest.xml")
	f.Write([]byte("<x/>"))
	w.Close()
	for _, prefix := range []string{"", "prefix"} {
		b := []byte(prefix + buf.String())
		p, err := Open(bytes.NewReader(b), int64(len(b)), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := p.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Reader(m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		r.Close()
		if string(got) != "<x/>" || err != nil {
			t.Fatal(string(got), err)
		}
		for i := range 70000 {
			m, err := p.Find(fmt.Sprintf("/a/%d%%20b", i))
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if _, err := p.Read(m, &out); err != nil || out.String() != fmt.Sprintf("hello %d", i) {
				t.Fatal(err, out.String())
			}
		}
	}
}
