package spill

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

// finding has fields that JSON may lose.
type finding struct {
	ID       int64
	URI, Key *string
}

// TestList: those beyond what is held come back in order, page by page, as often as they are asked for.
func TestList(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2000, 60_000} {
		var f List[finding]
		for i := range n {
			uri := fmt.Sprintf("http://example.org/ü\"<%d>", i)
			if err := f.Add(finding{ID: int64(i), URI: &uri}); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			next := 0
			err := f.Pages(500, func(page []finding) error {
				if next%500 != 0 || len(page) == 0 {
					t.Errorf("a page of %d after %d", len(page), next)
				}
				for _, p := range page {
					if p.ID != int64(next) || *p.URI != fmt.Sprintf("http://example.org/ü\"<%d>", next) || p.Key != nil {
						t.Fatalf("%d is %+v", next, p)
					}
					next++
				}
				return nil
			})
			if err != nil || next != n || f.Empty() != (n == 0) {
				t.Fatalf("%d of %d, %v", next, n, err)
			}
		}
		failed := errors.New("enough")
		if err := f.Pages(7, func([]finding) error { return failed }); n > 0 && !errors.Is(err, failed) {
			t.Errorf("of %d: %v", n, err)
		}
		file := f.values.file
		if (file != nil) != (n == 60_000) {
			t.Errorf("%d: a file is %v", n, file != nil)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if file == nil {
			continue
		}
		if _, err := os.Stat(file.Name()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its file: %v", err)
		}
	}
}
