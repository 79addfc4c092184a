package fetch

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"resyncd/destination/fuzztest"
)

// FuzzInflate: whatever is called gzip, it never grows beyond its ratio, and what Go's own reader refuses is refused.
func FuzzInflate(f *testing.F) {
	packed := func(s string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(s)) // a buffer takes all
		_ = w.Close()
		return b.Bytes()
	}
	sound := packed("a resource\n")
	for _, b := range [][]byte{nil, {0x1f, 0x8b}, sound, sound[:12], append(bytes.Clone(sound), sound...), append(bytes.Clone(sound), 'x'), packed(strings.Repeat(" ", 3<<20))} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, coded []byte) {
		fuzztest.Bound(t)
		in := &inflater{coded: &counter{r: bytes.NewReader(coded)}}
		n, err := io.Copy(io.Discard, in)
		if limit := ratioGrace + maxRatio*int64(len(coded)) + 64<<10; n > limit {
			t.Errorf("%d bytes became %d", len(coded), n)
		}
		if err != nil || len(coded) == 0 {
			return
		}
		z, err := gzip.NewReader(bytes.NewReader(coded))
		if err == nil {
			_, err = io.Copy(io.Discard, z)
		}
		if err != nil {
			t.Errorf("taken, but %v", err)
		}
	})
}
