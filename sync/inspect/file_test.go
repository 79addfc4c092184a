package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	"resyncd/store"
	"resyncd/store/blob"
)

// failing is a mirror whose files cannot be read to their ends.
type failing struct {
	blob.Mirror
	err error
}

func (f failing) Open(context.Context, string) (blob.File, blob.Info, error) {
	return broken{Reader: iotest.ErrReader(f.err)}, blob.Info{Length: 5}, nil
}

type broken struct {
	blob.File
	io.Reader
}

func (b broken) Read(p []byte) (int, error) { return b.Reader.Read(p) }

func (broken) Close() error { return nil }

// TestCheckUnreadable: a file that cannot be read is a finding, unless it is the mirror as a whole that cannot (F12).
func TestCheckUnreadable(t *testing.T) {
	t.Parallel()
	for err, whole := range map[error]bool{blob.ErrIO: false, errors.New("odd"): false, blob.ErrBusy: true, blob.ErrUnmarked: true} {
		f, got := Check(t.Context(), failing{err: fmt.Errorf("read: %w", err)}, &store.Resource{URI: "u", Key: "k"})
		if whole && !errors.Is(got, err) || !whole && (got != nil || f == nil || f.Problem != ProblemStale && f.Problem != ProblemChanged) {
			t.Errorf("%v: found %v, %v", err, f, got)
		}
	}
}
