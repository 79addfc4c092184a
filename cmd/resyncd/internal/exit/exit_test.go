package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/store"
	"resyncd/store/blob"
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
		"usage":                        {t.Context(), fmt.Errorf("x: %w", Usage("y")), 2},
		"configuration":                {t.Context(), &config.Error{}, 2},
		"held":                         {t.Context(), held, 5},
		"interrupted":                  {interrupted, held, 130},
		"interrupted within something": {interrupted, &Error{Code: 3}, 130},
		"ended before it was told to":  {interrupted, &Ended{Err: errors.New("x")}, 1},
		"held before it was told to":   {interrupted, fmt.Errorf("x: %w", &Ended{Err: held}), 5},
	} {
		if got := Code(c.ctx, c.err); got != c.want {
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
		{Usage("%w; choose another", &fs.PathError{Op: "open", Path: "/x/y", Err: fs.ErrNotExist}), "file does not exist; choose another"},
		{errors.New("plain"), "plain"},
	} {
		if got := Advised(c.err); !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q in it", got, c.want)
		}
	}
}

// TestVerdict: a run of several is failed only if all failed (contract.md 1).
func TestVerdict(t *testing.T) {
	t.Parallel()
	failed, misused, held := errors.New("x"), Usage("x"), error(&store.HeldError{})
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
		v := Verdict{Parts: c.good, Owed: c.owed, Differ: c.differ}
		for _, err := range c.failures {
			v.Fail(err)
		}
		if got := Code(t.Context(), v.Err()); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestHeldVerdict: a daemon that cannot be asked is exit 5, whoever says so.
func TestHeldVerdict(t *testing.T) {
	t.Parallel()
	var v Verdict
	v.Fail(&Error{Code: Held, Err: errors.New("x")})
	if got := Code(t.Context(), v.Err()); got != Held {
		t.Errorf("%d", got)
	}
}
