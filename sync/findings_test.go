package sync

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

// TestFindings: those beyond what is held come back in order, page by page, as often as they are asked for.
func TestFindings(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, findingsHeld, findingsHeld + 1, findingsHeld + 1234} {
		var f findings
		for i := range n {
			uri := fmt.Sprintf("http://example.org/ü\"<%d>", i)
			if err := f.add(problem{id: int64(i), Finding: Finding{URI: &uri, Problem: ProblemMissing}}); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			next := 0
			err := f.pages(500, func(page []problem) error {
				if next%500 != 0 || len(page) == 0 {
					t.Errorf("a page of %d after %d", len(page), next)
				}
				for _, p := range page {
					if p.id != int64(next) || *p.URI != fmt.Sprintf("http://example.org/ü\"<%d>", next) || p.Key != nil || p.Problem != ProblemMissing {
						t.Fatalf("%d is %+v", next, p)
					}
					next++
				}
				return nil
			})
			if err != nil || next != n || f.empty() != (n == 0) {
				t.Fatalf("%d of %d, %v", next, n, err)
			}
		}
		failed := errors.New("enough")
		if err := f.pages(7, func([]problem) error { return failed }); n > 0 && !errors.Is(err, failed) {
			t.Errorf("of %d: %v", n, err)
		}
		if (f.file != nil) != (n > findingsHeld) {
			t.Errorf("%d: a file is %v", n, f.file != nil)
		}
		if err := f.close(); err != nil {
			t.Error(err)
		}
		if f.file == nil {
			continue
		}
		if _, err := os.Stat(f.file.Name()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its file: %v", err)
		}
	}
}
