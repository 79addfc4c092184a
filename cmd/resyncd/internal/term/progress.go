// Package term knows how things are shown to people and scripts. It refuses to know where what it shows comes from.
package term

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	syncengine "resyncd/sync"
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
	f, isFile := stderr.(*os.File)
	return &Env{
		Out: &aside{screen: scr, w: stdout}, Err: &aside{screen: scr, w: stderr},
		TTY: isFile && term.IsTerminal(int(f.Fd())), Environ: environ, Now: time.Now, screen: scr,
	}
}

// Say tells a person something on stderr.
func (e *Env) Say(format string, args ...any) {
	fmt.Fprintf(e.Err, "resyncd: "+format+"\n", args...)
}

// Print writes a result to stdout.
func (e *Env) Print(format string, args ...any) error {
	_, err := fmt.Fprintf(e.Out, format, args...)
	return err
}

// JSON writes one object a line.
func JSON(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

// CanRedraw reports that stderr is a terminal that can take a line back.
func (e *Env) CanRedraw() bool { return e.TTY && !slices.Contains(e.Environ, "TERM=dumb") }

func (e *Env) width() int {
	if f, ok := e.screen.w.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return 80
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

// How often progress is shown, on a terminal and elsewhere.
const (
	redraw = 200 * time.Millisecond
	relate = 10 * time.Second
)

// paceOver is the time over which the pace is taken: a Source that stalls shows soon, and the figure stands still.
const paceOver = 10 * time.Second

// barWidth is the width of the bar; a narrow terminal has none.
const barWidth = 10

// Sums is how far a piece of work is: the steps of a Progress, added up.
type Sums syncengine.Progress

// Counter adds up the steps of a piece of work, told by many goroutines.
type Counter struct {
	mu   sync.Mutex
	sums Sums
}

// Note takes one step.
func (c *Counter) Note(s syncengine.Progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sums.Listed += s.Listed
	c.sums.Done += s.Done
	c.sums.Failed += s.Failed
	c.sums.Deleted += s.Deleted
	c.sums.Bytes += s.Bytes
	if s.Package != nil {
		c.sums.Package = next(c.sums.Package, s.Package)
	}
}

// next is the package to show: one that comes rather than one in use, which shows in what is done.
func next(shown, told *syncengine.PackageProgress) *syncengine.PackageProgress {
	same := shown != nil && shown.Number == told.Number
	switch told.State {
	case syncengine.PackageComing:
		return told
	case syncengine.PackageInUse:
		if same || shown == nil || shown.State != syncengine.PackageComing {
			return told
		}
	case syncengine.PackageOver, syncengine.PackageFailed:
		if same {
			return nil
		}
	}
	return shown
}

// Set takes over sums that were counted elsewhere.
func (c *Counter) Set(w *Sums) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sums = *w
}

// Sums is how far the work is.
func (c *Counter) Sums() Sums {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sums
}

// Progress shows how a run goes, on stderr: a bar on a terminal, plain lines elsewhere.
type Progress struct {
	Counter
	env   *Env
	what  string
	quiet bool
}

// Progress is for a run over what.
func (e *Env) Progress(what string, quiet bool) *Progress {
	return &Progress{env: e, what: OneLine(what), quiet: quiet}
}

// While shows progress for as long as work lasts.
func (p *Progress) While(ctx context.Context, work func(context.Context) error) error {
	if p.quiet {
		return work(ctx)
	}
	every, redraws := relate, p.env.CanRedraw()
	if redraws {
		every = redraw
	}
	done := make(chan struct{})
	var showing sync.WaitGroup
	showing.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		var pace pace
		pace.add(time.Now(), Sums{})
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				sums := p.Sums()
				pace.add(time.Now(), sums)
				if text := p.what + ": " + line(&sums, &pace); redraws {
					p.env.screen.draw(fitted(bar(&sums), text, p.env.width()))
				} else {
					p.env.Say("progress: %s", text)
				}
			}
		}
	})
	err := work(ctx)
	close(done)
	showing.Wait()
	p.env.screen.draw("")
	return err
}

// bar is how much of what is listed is done, as " 25% |██        |"; "" while nothing is.
func bar(w *Sums) string {
	if w.Listed == 0 {
		return ""
	}
	part := min(w.Done+w.owed(), w.Listed)
	full := int(barWidth * part / w.Listed)
	return fmt.Sprintf("%3d%% |%s%s|", 100*part/w.Listed, strings.Repeat("█", full), strings.Repeat(" ", barWidth-full))
}

// line is how far the work is, as "412 of 1000 done, 3.2 MiB/s, 2 owed, about 20s left".
func line(w *Sums, p *pace) string {
	s := "looking for changes"
	if w.Listed > 0 {
		s = fmt.Sprintf("%d of %d done", w.Done, w.Listed)
	} else if w.Done > 0 { // of what was owed, which no list tells
		s = fmt.Sprintf("%d done", w.Done)
	}
	if w.Package != nil {
		s += ", " + Package(w.Package)
	}
	if perSecond := p.bytes(); perSecond > 0 {
		s += ", " + Bytes(perSecond) + "/s"
	}
	if n := w.owed(); n > 0 {
		s += fmt.Sprintf(", %d owed", n)
	}
	if w.Deleted > 0 {
		s += fmt.Sprintf(", %d deleted", w.Deleted)
	}
	if left, ok := p.left(w); ok {
		s += ", about " + left.String() + " left"
	}
	return s
}

// Package is how a package comes along, as "package 2 of 4: 120.0 MiB of 300.0 MiB".
func Package(p *syncengine.PackageProgress) string {
	s := fmt.Sprintf("package %d", p.Number)
	if p.Of >= p.Number {
		s += fmt.Sprintf(" of %d", p.Of)
	}
	switch {
	case p.State == syncengine.PackageInUse:
		return s + fmt.Sprintf(": %d of %d members used", p.Used, p.Members)
	case p.Total < p.Bytes: // nobody said
		return s + ": " + Bytes(p.Bytes)
	}
	return s + ": " + Bytes(p.Bytes) + " of " + Bytes(p.Total)
}

// owed is at most what is not done: Failed counts tries.
func (w *Sums) owed() int64 {
	if w.Listed == 0 {
		return w.Failed
	}
	return max(0, min(w.Failed, w.Listed-w.Done))
}

// pace is what was done lately.
type pace struct {
	seen   []reading
	listed time.Time // when something more was listed last
}

type reading struct {
	at time.Time
	Sums
}

// add drops what is older than paceOver, but for one reading to compare with.
func (p *pace) add(now time.Time, w Sums) {
	if len(p.seen) == 0 || p.seen[len(p.seen)-1].Listed != w.Listed {
		p.listed = now
	}
	p.seen = append(p.seen, reading{now, w})
	for len(p.seen) > 2 && now.Sub(p.seen[1].at) >= paceOver {
		p.seen = p.seen[1:]
	}
}

func (p *pace) over() (items, bytes int64, d time.Duration) {
	if len(p.seen) < 2 {
		return 0, 0, 0
	}
	a, b := &p.seen[0], &p.seen[len(p.seen)-1]
	return b.Done - a.Done, b.Bytes - a.Bytes, b.at.Sub(a.at)
}

func (p *pace) bytes() int64 {
	_, n, d := p.over()
	if d <= 0 {
		return 0
	}
	return int64(float64(n) / d.Seconds())
}

// left is how long the rest will take. Nobody can tell while lists are still being read, or at a standstill.
func (p *pace) left(w *Sums) (time.Duration, bool) {
	items, _, d := p.over()
	rest := w.Listed - w.Done - w.owed()
	if items <= 0 || rest <= 0 || d < time.Second || p.seen[len(p.seen)-1].at.Sub(p.listed) < time.Second {
		return 0, false
	}
	left := time.Duration(float64(rest) / float64(items) * float64(d))
	switch {
	case left < 0 || left > 1000*time.Hour:
		return 0, false
	case left > time.Hour:
		return left.Round(time.Minute), true
	}
	return max(left.Round(time.Second), time.Second), true
}

// fitted is a line that the terminal does not break: text, after the bar where there is room for both.
func fitted(bar, text string, width int) string {
	if both := bar + "  " + text; bar != "" && len([]rune(both)) < width {
		return both
	}
	if runes := []rune(text); len(runes) >= width {
		return string(runes[:max(0, width-1)])
	}
	return text
}
