package term

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	syncengine "resyncd/sync"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	position := "2026-01-02T03:04:05Z"
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
	if diff := cmp.Diff(want, summary(t, &r)); diff != "" {
		t.Error(diff)
	}
	in := syncengine.Result{Source: "lib", Set: "s", Kind: "none", Position: &position, InStep: true}
	if got := summary(t, &in); !strings.HasSuffix(got, "  in step, up to 2026-01-02T03:04:05Z\n") {
		t.Error(got)
	}
	dry := syncengine.Result{Source: "lib", Set: "s", Kind: "baseline", DryRun: true, Owed: 3}
	if diff := cmp.Diff("lib  s\n  dry run (baseline): 0 would be fetched (0 B, as far as the Source tells lengths), 0 deleted; nothing was touched\n", summary(t, &dry)); diff != "" {
		t.Error(diff)
	}
}

func TestBytesText(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 1<<63 - 1: "8.0 EiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
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

func summary(t *testing.T, r *syncengine.Result) string {
	t.Helper()
	var b strings.Builder
	if err := Summary(&b, "./mirror", r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
