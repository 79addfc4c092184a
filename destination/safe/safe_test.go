package safe_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"resyncd/destination/safe"
)

func TestDo(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	if err := safe.Do(func() error { return broken }); err != broken {
		t.Errorf("work that failed: %v", err)
	}
	err := safe.Do(func() error { panic(broken) })
	bug, ok := errors.AsType[*safe.PanicError](err)
	if !ok || !errors.Is(err, broken) || !strings.Contains(string(bug.Stack), "TestDo") {
		t.Errorf("work that panicked: %v", err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Error("oh", "err", err)
	if said := log.String(); !strings.Contains(said, "err.panic=broken") || !strings.Contains(said, "safe_test.go") {
		t.Errorf("the log has %s", said)
	}
}
