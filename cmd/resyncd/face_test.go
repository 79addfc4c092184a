package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/store"
	"resyncd/store/blob"
	syncengine "resyncd/sync"
)

func TestExitCode(t *testing.T) {
	t.Parallel()
	held := fmt.Errorf("x: %w", &store.HeldError{Source: "lib", Holder: "somebody"})
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want int
	}{
		"done":                         {t.Context(), nil, 0},
		"done although interrupted":    {interrupted, nil, 0},
		"failed":                       {t.Context(), errors.New("x"), 1},
		"a peer's timeout is no ^C":    {t.Context(), context.DeadlineExceeded, 1},
		"usage":                        {t.Context(), fmt.Errorf("x: %w", usage("y")), 2},
		"configuration":                {t.Context(), &config.Error{}, 2},
		"held":                         {t.Context(), held, 5},
		"interrupted":                  {interrupted, held, 130},
		"interrupted within something": {interrupted, &coded{code: 3}, 130},
	} {
		if got := exitCode(c.ctx, c.err); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestAdvised(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{&store.HeldError{Source: "lib", Holder: "h"}, "source lib is held by another process (h); wait until"},
		{fmt.Errorf("open: %w", blob.ErrUnmarked), "; mount it and run the command again"},
		{fmt.Errorf("place: %w", blob.ErrNoSpace), "; free space or inodes"},
		{fmt.Errorf("open: %w", store.ErrForeign), "; name the right data_dir"},
		{fmt.Errorf("stage: %w", blob.ErrBusy), "; raise the limit of open files"},
		{&fs.PathError{Op: "open", Path: "/x/y", Err: fs.ErrPermission}, "; run it as the user that these files belong to"},
		{fmt.Errorf("write: %w", &fs.PathError{Op: "open", Path: "/x/y", Err: fs.ErrNotExist}), "; check the path"},
		{usage("%w; choose another", &fs.PathError{Op: "open", Path: "/x/y", Err: fs.ErrNotExist}), "file does not exist; choose another"},
		{errors.New("plain"), "plain"},
	} {
		if got := advised(c.err); !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q in it", got, c.want)
		}
	}
}

// TestVerdict: a run of several is failed only if all failed (contract.md 1).
func TestVerdict(t *testing.T) {
	t.Parallel()
	failed, misused, held := errors.New("x"), usage("x"), error(&store.HeldError{})
	for name, c := range map[string]struct {
		failures []error
		good     int
		owed     bool
		differ   bool
		want     int
	}{
		"nothing to do":       {want: 0},
		"all good":            {good: 2, want: 0},
		"owed":                {good: 2, owed: true, want: 3},
		"one failed":          {failures: []error{failed}, want: 1},
		"one of two failed":   {failures: []error{failed}, good: 1, want: 3},
		"both failed":         {failures: []error{failed, failed}, want: 1},
		"one held":            {failures: []error{held}, want: 5},
		"one held, one good":  {failures: []error{held}, good: 1, want: 3},
		"one held, one bad":   {failures: []error{held, failed}, want: 1},
		"misused":             {failures: []error{misused}, want: 2},
		"misused and failed":  {failures: []error{misused, failed}, want: 1},
		"differences":         {good: 1, differ: true, want: 4},
		"differences, failed": {failures: []error{failed}, good: 1, differ: true, want: 4},
	} {
		v := verdict{parts: c.good, owed: c.owed, differ: c.differ}
		for _, err := range c.failures {
			v.fail(err)
		}
		if got := exitCode(t.Context(), v.err()); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	position := "2026-01-02T03:04:05Z"
	mine := &place{mirror: "mirror", alone: true}
	r := syncengine.Result{
		Source: "lib", Set: "https://lib.example/c.xml", Kind: "incremental", Position: &position, Fetched: 3, Unchanged: 2,
		Deleted: 1, Failed: 1, Requests: 9, Bytes: 2048, Seconds: 1.25, Owed: 1, Held: 12, Refused: 4, GapsFound: 1, Problem: "bad",
	}
	want := `lib  https://lib.example/c.xml
  incremental: 3 fetched, 2 unchanged, 1 deleted, 1 failed (9 requests, 2.0 KiB, 1.2 s)
  problem: bad
  1 gaps found, 0 closed
  4 refused (outside scope or policy): resyncd ls --refused ./mirror
  12 removals held for you: resyncd ls --held ./mirror, then resyncd approve ./mirror
  1 owed: resyncd ls --owed ./mirror
  not in step
`
	if diff := cmp.Diff(want, summary(mine, &r)); diff != "" {
		t.Error(diff)
	}
	in := syncengine.Result{Source: "lib", Set: "s", Kind: "none", Position: &position, InStep: true}
	if got := summary(mine, &in); !strings.HasSuffix(got, "  in step, up to 2026-01-02T03:04:05Z\n") {
		t.Error(got)
	}
	dry := syncengine.Result{Source: "lib", Set: "s", Kind: "baseline", DryRun: true, Owed: 3}
	if diff := cmp.Diff("lib  s\n  dry run (baseline): nothing was touched\n", summary(mine, &dry)); diff != "" {
		t.Error(diff)
	}
}

func TestBytesText(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 1<<63 - 1: "8.0 EiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// faceShell is a shell that writes into one buffer per stream.
func faceShell(tty bool) (sh *shell, out, err *buffer) {
	out, err = &buffer{}, &buffer{}
	scr := &screen{w: err}
	return &shell{out: &aside{screen: scr, w: out}, err: scr, screen: scr, tty: tty, now: time.Now, warned: map[string]bool{}}, out, err
}

// TestAside: results are written as they are.
func TestAside(t *testing.T) {
	t.Parallel()
	var out, messages bytes.Buffer
	scr := &screen{w: &messages}
	if n, err := (&aside{screen: scr, w: &out}).Write([]byte("x\n")); n != 2 || err != nil || out.String() != "x\n" || messages.Len() != 0 {
		t.Errorf("%d, %v, %q, %q", n, err, out.String(), messages.String())
	}
}
