package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"resyncd/cmd/resyncd/internal/exit"
)

// ledger is a Source with a Resource List and nothing else, which remembers what it was asked for.
type ledger struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

// newLedger serves resources of these names as answer does.
func newLedger(t *testing.T, names []string, answer func(l *ledger, w http.ResponseWriter, r *http.Request)) *ledger {
	t.Helper()
	l := &ledger{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/list.xml":
			fmt.Fprint(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`+
				`<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/>`)
			for _, name := range names {
				fmt.Fprintf(w, `<url><loc>http://%s/%s</loc><lastmod>2025-01-01T00:00:00Z</lastmod></url>`, r.Host, name)
			}
			fmt.Fprint(w, `</urlset>`)
		case slices.Contains(names, strings.TrimPrefix(r.URL.Path, "/")):
			l.mu.Lock()
			l.asked = append(l.asked, r.URL.Path)
			l.mu.Unlock()
			answer(l, w, r)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(l.Close)
	return l
}

// take is how often each was asked for since it was last called.
func (l *ledger) take() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[string]int{}
	for _, path := range l.asked {
		counts[path]++
	}
	l.asked = nil
	return counts
}

func (l *ledger) sync(t *testing.T, mirror string) (cmd *exec.Cmd, said *bytes.Buffer) {
	t.Helper()
	cmd, said = exec.Command("resyncd", "sync", "--quiet", l.URL+"/list.xml", mirror), new(bytes.Buffer)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = filepath.Dir(mirror), childEnv(), said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, said
}

func endedWith(t *testing.T, cmd *exec.Cmd, said *bytes.Buffer, code int) {
	t.Helper()
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("the run ended with %d, not %d: %s", got, code, said)
	}
}

// TestInterruptedRunKeepsWhatCame: Ctrl-C costs no body that was received; only what was on its way is asked for again (F1).
func TestInterruptedRunKeepsWhatCame(t *testing.T) {
	t.Parallel()
	const n, enough, atOnce = 300, 200, 16
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("r%03d.txt", i))
	}
	reached := make(chan struct{})
	l := newLedger(t, names, func(l *ledger, w http.ResponseWriter, _ *http.Request) {
		l.mu.Lock()
		if len(l.asked) == enough {
			close(reached)
		}
		l.mu.Unlock()
		_, _ = w.Write([]byte("body"))
	})
	mirror := filepath.Join(freshRAM(t), "mirror")
	cmd, said := l.sync(t, mirror)
	<-reached
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	endedWith(t, cmd, said, exit.Interrupted)
	asked := len(l.take())
	files, err := filepath.Glob(filepath.Join(mirror, hostFolder(l.URL), "*.txt"))
	if err != nil || len(files) < asked-atOnce {
		t.Errorf("%d files are there of %d that were asked for, %d at once: %v", len(files), asked, atOnce, err)
	}
	cmd, said = l.sync(t, mirror)
	endedWith(t, cmd, said, exit.Done)
	if again := len(l.take()); again > n-len(files) {
		t.Errorf("%d were asked for again, with %d of %d files there", again, len(files), n)
	}
}

// TestAlwaysCut: a resource whose transfer always breaks is asked for eight times at most in a run of the usual length.
func TestAlwaysCut(t *testing.T) {
	t.Parallel()
	l := newLedger(t, []string{"cut.bin", "cut-late.bin", "good.txt"}, func(_ *ledger, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/good.txt" {
			_, _ = w.Write([]byte("body"))
			return
		}
		come := 1000
		if r.URL.Path == "/cut-late.bin" {
			come = 2 << 20
			w.Header().Set("ETag", `"strong"`)
		}
		w.Header().Set("Content-Length", "5000000")
		_, _ = w.Write(make([]byte, come))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	cmd, said := l.sync(t, filepath.Join(freshRAM(t), "mirror"))
	endedWith(t, cmd, said, exit.Owed)
	for path, n := range l.take() {
		if n > 8 {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
}
