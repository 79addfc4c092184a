package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with the configuration.
type Problem struct {
	// Where is FILE:LINE, the name of an environment variable or of a flag.
	Where string
	// Key is the dotted path, such as network.retry_for or sources[0].url; empty if no key is meant.
	Key string
	// What is wrong and what would be right, in one line without secrets.
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

// Error is everything that is wrong with a configuration, in the order of the file, then of the environment. It means
// bad usage or config: exit code 2.
type Error struct{ Problems []Problem }

// shownProblems bounds the message; a file that is no configuration at all would fill screens.
const shownProblems = 100

// Error names each problem on a line of its own.
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

// origin is where a key got its value.
type origin struct {
	where string
	line  int // 0 outside the file
}

// report collects problems and remembers where each key was set and which keys are already known to be bad.
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

// given reports whether the operator set key and it could be read; only then may it clash with another key.
func (r *report) given(key string) bool {
	_, ok := r.origins[key]
	return ok && !r.bad[key]
}

// clash adds a problem that was found at a key which was set.
func (r *report) clash(key, what string) { r.add(r.origins[key], key, what) }

func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		// Line 0 is the environment or a flag, after the file.
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
