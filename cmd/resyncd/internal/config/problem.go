package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
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

// origin is where a key was set.
type origin struct {
	where string
	line  int // noLine outside the file
}

// noLine comes after every line.
const noLine = math.MaxInt

// outside is a variable or a flag.
func outside(name string) origin { return origin{name, noLine} }

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

func (r *report) at(node *yaml.Node) origin {
	return origin{fmt.Sprintf("%s:%d", r.file, node.Line), node.Line}
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
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return cmp.Compare(a.line, b.line) })
	return &Error{r.problems}
}
