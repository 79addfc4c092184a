package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"resyncd/destination/safe"
	"resyncd/sync/queue"
)

// TestPanicsAreLogged: work that panics, in the queue or beside it, fails by itself, and the log has where (F5).
func TestPanicsAreLogged(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(d *Daemon) error{
		"beside the queue": func(d *Daemon) error { return d.parts.guarded(func() error { panic("oh") }) },
		"in the queue": func(d *Daemon) error {
			err := &safe.PanicError{Value: "oh", Stack: []byte("panic_test.go:1")}
			d.jobFailed(queue.Job{}, 1, time.Time{}, err)
			return err
		},
	} {
		var log bytes.Buffer
		logTo := slog.New(slog.NewTextHandler(&log, nil))
		err := fail(&Daemon{parts: parts{log: logTo}, o: Options{Log: logTo}})
		if _, ok := errors.AsType[*safe.PanicError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
		if said := log.String(); strings.Count(said, "panic_test.go") == 0 || !strings.Contains(said, "panic=oh") {
			t.Errorf("%s: the log has %q", name, said)
		}
	}
}
