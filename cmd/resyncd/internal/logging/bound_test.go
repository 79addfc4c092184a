package logging

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pad is what lines are written to, also by timers.
type pad struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *pad) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *pad) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.text.Reset()
	return p.text.String()
}

// TestRepeats: a flood of lines that say the same ends in one that counts them, for each Source by itself.
func TestRepeats(t *testing.T) {
	t.Parallel()
	for name, look := range looks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var out pad
				log := New(&out, look.asJSON, slog.LevelDebug, look.tty)
				flooded, calm := log.With(KeySource, "flooded"), log.With(KeySource, "calm")
				count := func() int { return strings.Count(out.take(), "\n") }
				for n := range 12_000 { // in five seconds
					flooded.Warn("a notification could not be used", "n", n)
					if n%1000 == 0 {
						flooded.Info("another", "n", n)
						calm.Warn("a notification could not be used", "n", n)
						<-time.After(5 * time.Second / 12)
					}
				}
				if n := count(); n != repeatsMost+1+12+12 {
					t.Errorf("%d lines", n)
				}
				<-time.After(repeatsIn)
				synctest.Wait()
				text := out.take()
				if !strings.Contains(text, fmt.Sprint(12_000-repeatsMost)) || !strings.Contains(text, "a notification could not be used") ||
					!strings.Contains(text, "flooded") {
					t.Errorf("no sum: %s", text)
				}
				if n := strings.Count(text, "\n"); n != 1 {
					t.Errorf("%d sums", n)
				}
				for range 3 {
					flooded.Warn("a notification could not be used")
				}
				for range 1000 {
					flooded.Debug("all of it")
				}
				if n := count(); n != 1003 {
					t.Errorf("%d lines later", n)
				}
				for range repeatsMost * 3 { // one in a while is no flood
					flooded.Warn("a notification could not be used")
					<-time.After(repeatsIn / repeatsMost)
				}
				if n := count(); n != repeatsMost*3 {
					t.Errorf("%d of those that come now and then", n)
				}
			})
		})
	}
}
