package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	syncengine "resyncd/sync"
)

// How often progress is shown: on a terminal one line is redrawn, elsewhere a plain line comes now and then.
const (
	redraw = 200 * time.Millisecond
	relate = 10 * time.Second
)

// paceOver is the time over which the pace is taken: short enough to tell of a Source that stalls, long enough to be calm.
const paceOver = 10 * time.Second

// barWidth is that of the bar itself; on a narrow terminal there is none.
const barWidth = 10

// progress shows how a run goes, on stderr only: a line with a bar on a terminal, plain lines elsewhere, nothing if quiet.
type progress struct {
	sh    *shell
	what  string
	quiet bool

	listed, done, failed, deleted, bytes atomic.Int64
}

func (sh *shell) progress(what string, quiet bool) *progress {
	return &progress{sh: sh, what: oneLine(what), quiet: quiet}
}

// note takes one step; it is called from the engine's goroutines.
func (p *progress) note(s syncengine.Progress) {
	p.listed.Add(s.Listed)
	p.done.Add(s.Done)
	p.failed.Add(s.Failed)
	p.deleted.Add(s.Deleted)
	p.bytes.Add(s.Bytes)
}

// set shows sums that were counted elsewhere.
func (p *progress) set(w *workDone) {
	p.listed.Store(w.Listed)
	p.done.Store(w.Done)
	p.failed.Store(w.Failed)
	p.deleted.Store(w.Deleted)
	p.bytes.Store(w.Bytes)
}

// sums is set's other end.
func (p *progress) sums() workDone {
	return workDone{Listed: p.listed.Load(), Done: p.done.Load(), Failed: p.failed.Load(), Deleted: p.deleted.Load(), Bytes: p.bytes.Load()}
}

// while shows progress for as long as work lasts.
func (p *progress) while(ctx context.Context, work func(context.Context) error) error {
	if p.quiet {
		return work(ctx)
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		if p.sh.canRedraw() {
			p.draw(done)
		} else {
			p.tell(done)
		}
	}()
	err := work(ctx)
	close(done)
	<-stopped
	return err
}

// tell writes a plain line now and then.
func (p *progress) tell(done <-chan struct{}) {
	tick := time.NewTicker(relate)
	defer tick.Stop()
	begun := time.Now()
	var pace pace
	pace.add(begun, workDone{})
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			now, sums := time.Now(), p.sums()
			pace.add(now, sums)
			p.sh.say("progress: %s: %s", p.what, line(&sums, &pace))
		}
	}
}

// draw keeps one line, the last of the terminal, up to date.
func (p *progress) draw(done <-chan struct{}) {
	bar := progressbar.NewOptions64(1, progressbar.OptionSetWriter(io.Discard), progressbar.OptionSetWidth(barWidth),
		progressbar.OptionSetElapsedTime(false), progressbar.OptionSetPredictTime(false), progressbar.OptionThrottle(0))
	_ = bar.RenderBlank() // into nowhere
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	var pace pace
	pace.add(time.Now(), workDone{})
	for {
		select {
		case <-done:
			p.sh.screen.erase()
			return
		case <-tick.C:
			sums := p.sums()
			pace.add(time.Now(), sums)
			// A little more than is known: more may be listed, and a full bar would count itself finished.
			bar.ChangeMax64(sums.Listed*1000 + 1)
			_ = bar.Set64(min(sums.Done+sums.owed(), sums.Listed) * 1000) // only fails above the maximum
			shown := ""
			if sums.Listed > 0 {
				shown = strings.TrimSpace(bar.String())
			}
			p.sh.screen.draw(fitted(shown, p.what+": "+line(&sums, &pace), p.sh.width()))
		}
	}
}

// line is how far the work is, in one line: "412 of 1000 done, 3.2 MiB/s, 2 owed, about 20s left". What is not known yet,
// or is nothing, is left out.
func line(w *workDone, p *pace) string {
	s := "looking for changes"
	if w.Listed > 0 {
		s = fmt.Sprintf("%d of %d done", w.Done, w.Listed)
	} else if w.Done > 0 { // a run that takes up what was owed lists nothing
		s = fmt.Sprintf("%d done", w.Done)
	}
	if perSecond := p.bytes(); perSecond > 0 {
		s += ", " + bytesText(perSecond) + "/s"
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

// owed is how many resources failed and may be left owed. Failed counts tries, so it is no more than what is not done.
func (w *workDone) owed() int64 {
	if w.Listed == 0 {
		return w.Failed
	}
	return max(0, min(w.Failed, w.Listed-w.Done))
}

// pace is how fast work went lately.
type pace struct{ seen []reading }

type reading struct {
	at time.Time
	workDone
}

// add notes where the work stands; what is older than paceOver is forgotten, but for one reading to compare with.
func (p *pace) add(now time.Time, w workDone) {
	p.seen = append(p.seen, reading{now, w})
	for len(p.seen) > 2 && now.Sub(p.seen[1].at) >= paceOver {
		p.seen = p.seen[1:]
	}
}

// over is what was done between the first and the last reading, and in what time.
func (p *pace) over() (items, bytes int64, d time.Duration) {
	if len(p.seen) < 2 {
		return 0, 0, 0
	}
	a, b := &p.seen[0], &p.seen[len(p.seen)-1]
	return b.Done - a.Done, b.Bytes - a.Bytes, b.at.Sub(a.at)
}

// bytes is the rate per second.
func (p *pace) bytes() int64 {
	_, n, d := p.over()
	if d <= 0 {
		return 0
	}
	return int64(float64(n) / d.Seconds())
}

// left is how long the rest will take if it goes on like this. There is no telling at first, while lists are still being
// read, and at a standstill.
func (p *pace) left(w *workDone) (time.Duration, bool) {
	items, _, d := p.over()
	rest := w.Listed - w.Done - w.owed()
	if items <= 0 || rest <= 0 || d < time.Second || !p.settled() {
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

// settled reports that nothing more was listed during the last second.
func (p *pace) settled() bool {
	last := &p.seen[len(p.seen)-1]
	for i := len(p.seen) - 2; i >= 0; i-- {
		if r := &p.seen[i]; r.Listed != last.Listed {
			return false
		} else if last.at.Sub(r.at) >= time.Second {
			return true
		}
	}
	return false
}

// fitted is a line that the terminal does not break: text, after the bar, always of one width, where there is room for both.
func fitted(bar, text string, width int) string {
	if both := fmt.Sprintf("%*s  %s", barWidth+7, bar, text); bar != "" && len([]rune(both)) < width {
		return both
	}
	if runes := []rune(text); len(runes) >= width {
		return string(runes[:max(0, width-1)])
	}
	return text
}

// canRedraw reports that stderr is a terminal that can take a line back.
func (sh *shell) canRedraw() bool { return sh.tty && sh.variable("TERM") != "dumb" }

// width is that of the terminal, in characters.
func (sh *shell) width() int {
	if f, ok := sh.screen.w.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return 80
}

// variable is one of the environment, "" if it is not there.
func (sh *shell) variable(name string) string {
	for _, v := range sh.env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}
