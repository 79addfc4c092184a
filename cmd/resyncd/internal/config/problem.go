package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with the configuration.
type Problem struct {
	// Where is FILE:LINE, a variable or a flag.
	Where string
	// Key is the dotted path, "" for none.
	Key string
	// What is wrong, and what would be right.
	What string

	line int
}

// String is the problem on one line.
func (p Problem) String() string {
	if p.Key == "" {
		return p.Where + ": " + p.What
	}
	return p.Where + ": " + p.Key + ": " + p.What
}

// Error is everything that is wrong with a configuration, in order.
type Error struct{ Problems []Problem }

// shownProblems bounds the message.
const shownProblems = 100

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("invalid configuration:")
	for _, p := range e.Problems[:min(len(e.Problems), shownProblems)] {
		b.WriteString("\n  " + p.String())
	}
	if more := len(e.Problems) - shownProblems; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}

type origin struct {
	where string
	line  int // 0 outside the file
}

// report collects problems, and where each key was set.
type report struct {
	file     string
	origins  map[string]origin
	bad      map[string]bool
	problems []Problem
}

func newReport(file string) *report {
	return &report{file: file, origins: map[string]origin{}, bad: map[string]bool{}}
}

func (r *report) at(line int) origin {
	return origin{fmt.Sprintf("%s:%d", r.file, line), line}
}

func (r *report) add(o origin, key, what string) {
	r.bad[key] = true
	r.problems = append(r.problems, Problem{Where: o.where, Key: key, What: what, line: o.line})
}

// given reports whether key was set and could be read, so that it may clash with another.
func (r *report) given(key string) bool {
	_, ok := r.origins[key]
	return ok && !r.bad[key]
}

func (r *report) clash(key, what string) { r.add(r.origins[key], key, what) }

func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		// Line 0 is the environment or a flag.
		return cmp.Or(cmp.Compare(b2i(a.line == 0), b2i(b.line == 0)), cmp.Compare(a.line, b.line))
	})
	return &Error{r.problems}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
