package term

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	syncengine "resyncd/sync"
	"resyncd/sync/transfer"
)

// TestPlainProgress: without a terminal, and on one that cannot take a line back, a line every ten seconds; with --quiet
// none. Results stay alone on stdout.
func TestPlainProgress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tty, quiet bool
		want       string
	}{
		"no terminal": {want: "resyncd: progress: lib: 2 of 5 done, 204 B/s\nresyncd: progress: lib: 2 of 5 done\n"},
		"dumb":        {tty: true, want: "resyncd: progress: lib: 2 of 5 done, 204 B/s\nresyncd: progress: lib: 2 of 5 done\n"},
		"quiet":       {quiet: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			env, out, messages := termEnv(c.tty)
			env.Environ = []string{"TERM=dumb"}
			p := env.Progress("lib", c.quiet)
			err := p.While(t.Context(), func(context.Context) error {
				p.Note(syncengine.Progress{Listed: 5, Done: 2, Bytes: 2048})
				<-time.After(25 * time.Second)
				return errors.New("theirs")
			})
			if err == nil || err.Error() != "theirs" {
				t.Errorf("%s: the error of the work became %v", name, err)
			}
			if diff := cmp.Diff(c.want, messages.String()); diff != "" || out.String() != "" {
				t.Errorf("%s: %s, stdout %q", name, diff, out.String())
			}
		})
	}
}

// TestTerminalProgress: on a terminal one line, which gives way to messages and is gone in the end.
func TestTerminalProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env, out, messages := termEnv(true)
		p := env.Progress("lib\x1b[2J", false)
		_ = p.While(t.Context(), func(context.Context) error {
			<-time.After(time.Second)
			p.Note(syncengine.Progress{Listed: 400})
			for range 100 {
				p.Note(syncengine.Progress{Done: 1, Bytes: 1 << 20})
				<-time.After(100 * time.Millisecond)
			}
			p.Note(syncengine.Progress{Failed: 1})
			<-time.After(time.Second)
			env.Say("a message")
			<-time.After(time.Second)
			fmt.Fprintln(env.Out, "a result")
			<-time.After(time.Second)
			return nil
		})
		// What a person sees, line after line, each as it stood last before it gave way.
		var seen []string
		for row := range strings.SplitSeq(messages.String(), "\n") {
			drawn := strings.Split(row, eraseLine)
			seen = append(seen, drawn[len(drawn)-1])
			for _, d := range drawn {
				if len([]rune(d)) >= 80 {
					t.Errorf("the terminal breaks %q", d)
				}
			}
		}
		if diff := cmp.Diff([]string{"resyncd: a message", ""}, seen); diff != "" {
			t.Error(diff)
		}
		for _, want := range []string{"lib [2J: looking for changes", "MiB/s, about ", "100 of 400 done", "\r\x1b[2K 25% |██        |  lib", ", 1 owed"} {
			if !strings.Contains(messages.String(), want) {
				t.Errorf("no %q in %q", want, messages.String())
			}
		}
		if out.String() != "a result\n" {
			t.Errorf("stdout %q", out.String())
		}
	})
}

func TestProgressLine(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, c := range map[string]struct {
		after time.Duration
		was   Sums
		is    Sums
	}{
		"looking for changes":                   {after: time.Second},
		"3 done":                                {after: time.Second, was: Sums{Done: 3}, is: Sums{Done: 3}},
		"1 of 9 done":                           {after: time.Second, was: Sums{Listed: 9, Done: 1}, is: Sums{Listed: 9, Done: 1}},
		"5 of 9 done, about 1s left":            {after: time.Second, was: Sums{Listed: 9, Done: 1}, is: Sums{Listed: 9, Done: 5}},
		"4 of 9 done":                           {after: 100 * time.Millisecond, was: Sums{Listed: 9, Done: 1}, is: Sums{Listed: 9, Done: 4}},
		"2 of 7 done":                           {after: time.Second, was: Sums{Listed: 6, Done: 1}, is: Sums{Listed: 7, Done: 2}}, // still listing
		"9 of 9 done, 4 deleted":                {after: time.Second, was: Sums{Listed: 9}, is: Sums{Listed: 9, Done: 9, Failed: 3, Deleted: 4}},
		"8 of 9 done, 1 owed":                   {after: time.Second, was: Sums{Listed: 9}, is: Sums{Listed: 9, Done: 8, Failed: 30}},
		"8 of 9 done, 2.0 KiB/s":                {after: 2 * time.Second, was: Sums{Listed: 9, Done: 8}, is: Sums{Listed: 9, Done: 8, Bytes: 4096}},
		"looking for changes, package 1: 512 B": {after: time.Second, is: Sums{Package: &syncengine.PackageProgress{Number: 1, Bytes: 512, Total: -1, State: syncengine.PackageComing}}},
		"1 of 9 done, package 2 of 4: 1.5 KiB of 3.0 KiB":  {after: time.Second, was: Sums{Listed: 9, Done: 1}, is: Sums{Listed: 9, Done: 1, Package: &syncengine.PackageProgress{Number: 2, Of: 4, Bytes: 1536, Total: 3072, State: syncengine.PackageComing}}},
		"1 of 9 done, package 5: 300 of 1000 members used": {after: time.Second, was: Sums{Listed: 9, Done: 1}, is: Sums{Listed: 9, Done: 1, Package: &syncengine.PackageProgress{Number: 5, Of: 4, Bytes: 3, Total: 3, Used: 300, Members: 1000, State: syncengine.PackageInUse}}},
		"1 of 3601 done, about 1h left":                    {after: time.Second, was: Sums{Listed: 3601}, is: Sums{Listed: 3601, Done: 1}},
	} {
		var p pace
		p.add(begun, c.was)
		p.add(begun.Add(c.after), c.is)
		got := strings.Replace(line(&c.is, &p), "1h0m0s", "1h", 1)
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	// Only the last seconds count.
	var p pace
	for i := range 100 {
		p.add(begun.Add(time.Duration(i)*time.Second), Sums{Listed: 1000, Done: int64(i), Bytes: int64(i) * 1000})
	}
	for i := range 20 {
		p.add(begun.Add(time.Duration(100+i)*time.Second), Sums{Listed: 1000, Done: 100, Bytes: 100_000})
	}
	if _, ok := p.left(&Sums{Listed: 1000, Done: 100}); ok || p.bytes() != 0 || len(p.seen) > 12 {
		t.Errorf("a standstill is not seen: %d B/s of %d readings", p.bytes(), len(p.seen))
	}
}

// TestShownPackage: of two packages the one that comes is shown, and none once both are over.
func TestShownPackage(t *testing.T) {
	t.Parallel()
	var c Counter
	for i, step := range []struct {
		number int
		state  transfer.PackageState
		want   int
	}{
		{1, syncengine.PackageComing, 1}, {1, syncengine.PackageInUse, 1}, {2, syncengine.PackageComing, 2}, {1, syncengine.PackageInUse, 2},
		{1, syncengine.PackageOver, 2}, {2, syncengine.PackageInUse, 2}, {3, syncengine.PackageComing, 3}, {3, syncengine.PackageFailed, 0},
		{3, syncengine.PackageOver, 0}, {2, syncengine.PackageInUse, 2}, {2, syncengine.PackageOver, 0},
	} {
		c.Note(syncengine.Progress{Package: &syncengine.PackageProgress{Number: step.number, State: step.state}})
		got := 0
		if p := c.Sums().Package; p != nil {
			got = p.Number
		}
		if got != step.want {
			t.Errorf("step %d: package %d is shown, want %d", i, got, step.want)
		}
	}
}

func TestFitted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		width int
		want  string
	}{{80, "|bär|  löng text"}, {17, "|bär|  löng text"}, {16, "löng text"}, {10, "löng text"}, {9, "löng tex"}, {1, ""}, {0, ""}} {
		if got := fitted("|bär|", "löng text", c.width); got != c.want {
			t.Errorf("%d: %q, want %q", c.width, got, c.want)
		}
	}
}

// termEnv is an Env that writes into one buffer for each stream.
func termEnv(tty bool) (env *Env, out, messages *strings.Builder) {
	out, messages = &strings.Builder{}, &strings.Builder{}
	env = NewEnv(nil, out, messages)
	env.TTY = tty
	return env, out, messages
}
