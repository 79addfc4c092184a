package main

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/internal/usage"
	"resyncd/cmd/resyncd/internal/term"
)

// faceShell is a shell that writes into one buffer per stream.
func faceShell(tty bool) (sh *shell, out, err *buffer) {
	out, err = &buffer{}, &buffer{}
	sh = &shell{Env: term.NewEnv(nil, out, err), program: commands()}
	sh.TTY = tty
	return sh, out, err
}

// TestLogOnTerminals: a terminal gets a coloured log, a dumb one a plain one; NO_COLOR is heeded by package logging.
func TestLogOnTerminals(t *testing.T) {
	for term, coloured := range map[string]bool{"xterm": true, "dumb": false} {
		t.Setenv("NO_COLOR", "")
		sh, _, messages := faceShell(true)
		sh.Environ = []string{"TERM=" + term}
		app := sh.program.App(usage.Program{Do: func(c *cli.Context, _ *usage.Command) (err error) {
			sh.c = c
			if sh.log, err = sh.logger(); err == nil {
				sh.log.Warn("a line")
			}
			return err
		}})
		if err := app.Run([]string{"resyncd", "version"}); err != nil {
			t.Fatal(err)
		}
		if got := messages.String(); strings.Contains(got, "\x1b[") != coloured || !strings.Contains(got, "a line") {
			t.Errorf("TERM=%s: %q", term, got)
		}
	}
}

// buffer takes what a process writes while a test looks at it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
