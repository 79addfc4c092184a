package dir

import (
	"fmt"
	"strings"
	"testing"

	"resyncd/store/blob"
)

// BenchmarkPlace: files of 4 KiB, from stage to name: one by one or in groups, with and without durability. Only the
// ratios are worth keeping (performance.md): groups should come near "none", one by one may not.
func BenchmarkPlace(b *testing.B) {
	text := []byte(strings.Repeat("x", 4<<10))
	for _, c := range []struct {
		name     string
		group    int
		whole    bool
		unsynced bool
	}{
		{"none", 500, false, true},
		{"one by one", 1, true, false},
		{"eight by eight", 8, true, false},
		{"groups of 500, each synced", 500, false, false},
		{"groups of 500", 500, true, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			m, _ := newMirror(b, Options{Unsynced: c.unsynced})
			m.sync.whole = m.sync.whole && c.whole
			group := make([]blob.Placement, 0, c.group)
			flush := func() {
				errs, err := m.Place(b.Context(), group)
				if err != nil {
					b.Fatal(errs[0], err)
				}
				group = group[:0]
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				s, err := m.NewStage(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if _, err := s.Write(text); err != nil {
					b.Fatal(err)
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				n++
				group = append(group, blob.Placement{Stage: s, Key: fmt.Sprintf("host/%d/%d", n%50, n)})
				if len(group) == c.group {
					flush()
				}
			}
			flush()
		})
	}
}

// BenchmarkStat: one look at a file in a folder that is open (goal 6 of performance.md: every file of a mirror in milliseconds).
func BenchmarkStat(b *testing.B) {
	m, _ := newMirror(b, Options{Unsynced: true})
	for i := range 50 {
		put(b, m, fmt.Sprintf("host/a/b/%d/f", i), "x")
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if _, err := m.Stat(b.Context(), fmt.Sprintf("host/a/b/%d/f", n%50)); err != nil {
			b.Fatal(err)
		}
	}
}
