// Package term knows how things are shown to people and scripts. It refuses to know where what it shows comes from.
package term

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Env is what one invocation writes to, and what the environment told it.
type Env struct {
	Out     io.Writer // results
	Err     io.Writer // messages, log and progress
	TTY     bool      // Err is a terminal
	Environ []string
	Now     func() time.Time
	screen  *screen // below Out and Err
}

// NewEnv writes to stdout and stderr, of which neither breaks a line of progress.
func NewEnv(environ []string, stdout, stderr io.Writer) *Env {
	scr := &screen{w: stderr}
	return &Env{
		Out: &aside{screen: scr, w: stdout}, Err: &aside{screen: scr, w: stderr}, TTY: isTerminal(stderr),
		Environ: environ, Now: time.Now, screen: scr,
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Say tells a person something on stderr.
func (e *Env) Say(format string, args ...any) {
	fmt.Fprintf(e.Err, "resyncd: "+format+"\n", args...)
}

// JSON writes one object a line to stdout.
func (e *Env) JSON() *json.Encoder { return JSONTo(e.Out) }

// JSONTo is JSON for another writer.
func JSONTo(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

// CanRedraw reports that stderr is a terminal that can take a line back.
func (e *Env) CanRedraw() bool { return e.TTY && e.Variable("TERM") != "dumb" }

func (e *Env) width() int {
	if f, ok := e.screen.w.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return 80
}

// Variable is one of the environment, "" if it is not there.
func (e *Env) Variable(name string) string {
	for _, v := range e.Environ {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

const eraseLine = "\r\x1b[2K"

// screen is stderr. Its last line of progress gives way to whatever else is written.
type screen struct {
	mu   sync.Mutex
	w    io.Writer
	line string // of progress, which stands last; "": none
}

// draw has line stand last; "" takes away what does.
func (s *screen) draw(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(line)
}

// put is draw with mu held.
func (s *screen) put(line string) {
	if line != s.line { // no flicker
		s.line = line
		_, _ = io.WriteString(s.w, eraseLine+line) // the run goes on without a terminal
	}
}

// aside writes to stderr, or to stdout where that is the same terminal.
type aside struct {
	*screen
	w io.Writer
}

// Write implements io.Writer.
func (a *aside) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.put("")
	return a.w.Write(p)
}
