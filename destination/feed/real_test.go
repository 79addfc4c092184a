package feed

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update writes the golden files anew: read the difference before you believe it.
var update = flag.Bool("update", false, "write testdata/*.golden")

// The files of testdata are ours, in the manner of the software that they are named after, faults included.
func TestRealSoftware(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.xml")
	if err != nil || len(files) < 15 {
		t.Fatalf("%v, %d files", err, len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			doc, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			head, entries, err := read(t, string(doc), Options{Base: parseURL(t, "https://base.example/dir/feed.xml")})
			got := summary(head, entries, err)
			golden := strings.TrimSuffix(file, ".xml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			if kind := Sniff("text/html", doc); kind != head.Kind {
				t.Errorf("sniffed %q", kind)
			}
			for _, e := range entries {
				sameAgain(t, e)
			}
		})
	}
}
