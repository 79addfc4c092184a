package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// TestHelp: the help has examples, each of flags that there are, every flag's value has a name, and exit codes are told.
func TestHelp(t *testing.T) {
	t.Parallel()
	all := flags()
	examples := 0
	for line := range strings.SplitSeq(description, "\n") {
		example, ok := strings.CutPrefix(line, "   rssource ")
		if !ok {
			continue
		}
		examples++
		for _, word := range strings.Fields(example) {
			name, isFlag := strings.CutPrefix(word, "--")
			if isFlag && !slices.ContainsFunc(all, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }) {
				t.Errorf("there is no %s, as in %q", word, example)
			}
		}
	}
	if examples < 2 || !strings.Contains(description, "Exit codes: 0 ended by a signal; 1 failed") {
		t.Errorf("%d examples, or no exit codes, in:\n%s", examples, description)
	}
	for _, f := range all {
		if d, ok := f.(cli.DocGenerationFlag); !ok || d.TakesValue() && strings.Count(d.GetUsage(), "`") != 2 {
			t.Errorf("what --%s takes has no name", f.Names()[0])
		}
	}
}
