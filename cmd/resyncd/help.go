package main

import (
	"fmt"
	"slices"
	"strings"

	"resyncd/cmd/resyncd/internal/exit"
)

// codeTexts are what the exit codes mean (contract.md 1), in the words of every help.
var codeTexts = []struct {
	code int
	text string
}{
	{exit.Done, "done and in step"},
	{exit.Failed, "failed (nothing usable)"},
	{exit.Misused, "bad usage or configuration"},
	{exit.Owed, "finished, but something is owed or held (listed)"},
	{exit.Differences, "differences found (audit, verify)"},
	{exit.Held, "another process holds the set"},
	{exit.Interrupted, "interrupted (run again to go on)"},
}

// What a command can end with, by the kind of its work.
var (
	// codesAll are those of a command line.
	codesAll = []int{exit.Done, exit.Failed, exit.Misused, exit.Owed, exit.Differences, exit.Held, exit.Interrupted}
	// codesSync: commands that catch up, or have hubs asked for several Sources.
	codesSync = []int{exit.Done, exit.Failed, exit.Misused, exit.Owed, exit.Held, exit.Interrupted}
	// codesRead: commands that only look, at one thing.
	codesRead = []int{exit.Done, exit.Failed, exit.Misused, exit.Interrupted}
	// codesEach: commands that look at several Sources, of which some may fail.
	codesEach = []int{exit.Done, exit.Failed, exit.Misused, exit.Owed, exit.Interrupted}
	// codesChange: commands that change one Source, through the daemon or beside nobody.
	codesChange = []int{exit.Done, exit.Failed, exit.Misused, exit.Held, exit.Interrupted}
	// codesServe: a signal is how these end.
	codesServe = []int{exit.Done, exit.Failed, exit.Misused, exit.Held}
	// codesHere: commands that touch no Source.
	codesHere = []int{exit.Done, exit.Failed, exit.Misused}
)

// exampleLead marks the lines of a description that are examples.
const exampleLead = "   "

// codesLead begins the paragraph on exit codes.
const codesLead = "Exit codes: "

// about is the description of a command: what it does, how it is called, how it may end.
func about(text string, codes []int, examples ...string) string {
	var b strings.Builder
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if paragraph != "" {
			b.WriteString(wrapped(paragraph, 110) + "\n\n")
		}
	}
	for _, e := range examples {
		b.WriteString(exampleLead + e + "\n")
	}
	b.WriteString("\n" + wrapped(codesText(codes), 110))
	return b.String()
}

// codesText is the sentence on exit codes.
func codesText(codes []int) string {
	var parts []string
	for _, c := range codeTexts {
		if !slices.Contains(codes, c.code) {
			continue
		}
		text := c.text
		if c.code == exit.Done && !slices.Contains(codes, exit.Owed) {
			text = "done" // no word on the mirror
		}
		parts = append(parts, fmt.Sprintf("%d %s", c.code, text))
	}
	return codesLead + strings.Join(parts, "; ") + "."
}

// wrapped breaks text at blanks into lines of at most width characters.
func wrapped(text string, width int) string {
	var b strings.Builder
	n := 0
	for word := range strings.FieldsSeq(text) {
		size := len([]rune(word))
		switch {
		case n == 0:
		case n+1+size > width:
			b.WriteByte('\n')
			n = 0
		default:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += size
	}
	return b.String()
}
