package term

import (
	"io"
	"sync"
)

// eraseLine takes back the line that the cursor is on.
const eraseLine = "\r\x1b[2K"

// screen is stderr. A line of progress that stands last on it gives way to whatever else is written there.
type screen struct {
	mu   sync.Mutex
	w    io.Writer
	line string // of progress, which stands last; "": none
}

// Write implements io.Writer for messages and the log.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	return s.w.Write(p)
}

// draw puts a line of progress in the place of the one before.
func (s *screen) draw(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if line != s.line { // else it would only flicker
		s.line = line
		_, _ = io.WriteString(s.w, eraseLine+line) // a terminal that went away must not stop the run
	}
}

// erase takes the line of progress away.
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

// aside is stdout: where it is the same terminal as stderr, results must not be written into the line of progress.
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
