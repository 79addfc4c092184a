package term

import (
	"io"
	"sync"
)

const eraseLine = "\r\x1b[2K"

// screen is stderr. Its last line of progress gives way to whatever else is written.
type screen struct {
	mu   sync.Mutex
	w    io.Writer
	line string // of progress, which stands last; "": none
}

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	return s.w.Write(p)
}

func (s *screen) draw(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if line != s.line { // no flicker
		s.line = line
		_, _ = io.WriteString(s.w, eraseLine+line) // the run goes on without a terminal
	}
}

func (s *screen) erase() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
}

// clear is erase with mu held.
func (s *screen) clear() {
	if s.line != "" {
		_, _ = io.WriteString(s.w, eraseLine)
		s.line = ""
	}
}

// aside is stdout where it is the same terminal as stderr.
type aside struct {
	*screen
	w io.Writer
}

// Write implements io.Writer.
func (a *aside) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clear()
	return a.w.Write(p)
}
