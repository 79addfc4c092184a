package main

import (
	"io"
	"sync"
)

// eraseLine takes back the line that the cursor is on.
const eraseLine = "\r\x1b[2K"

// screen is stderr. A progress bar that stands on its last line gives way to whatever else is written there.
type screen struct {
	mu  sync.Mutex
	w   io.Writer
	bar bool // a bar stands on the last line
}

// Write implements io.Writer for messages and the log.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	return s.w.Write(p)
}

// clear takes the bar away; mu is held.
func (s *screen) clear() {
	if s.bar {
		_, _ = io.WriteString(s.w, eraseLine) // a terminal that went away must not stop the run
		s.bar = false
	}
}

// barArea is where a progress bar draws.
type barArea struct{ *screen }

// Write implements io.Writer.
func (a barArea) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bar = true
	return a.w.Write(p)
}

// aside is stdout: where it is the same terminal as stderr, results must not be written into the bar.
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
