// Package helptest knows what the help of a companion program has to tell. It refuses to know what the program does.
package helptest

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// Check insists that a description has examples, of flags that there are, and exit codes, and that every flag names its
// value.
func Check(t *testing.T, program, description string, flags []cli.Flag) {
	t.Helper()
	examples := 0
	for line := range strings.SplitSeq(description, "\n") {
		example, ok := strings.CutPrefix(line, "   "+program+" ")
		if !ok {
			continue
		}
		examples++
		for _, word := range strings.Fields(example) {
			name, isFlag := strings.CutPrefix(word, "--")
			known := func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }
			if isFlag && !slices.ContainsFunc(flags, known) {
				t.Errorf("there is no %s, as in %q", word, example)
			}
		}
	}
	if examples < 2 || !strings.Contains(description, "Exit codes: 0 ended by a signal; 1 failed") {
		t.Errorf("%d examples, or no exit codes, in:\n%s", examples, description)
	}
	for _, f := range flags {
		if d, ok := f.(cli.DocGenerationFlag); !ok || d.TakesValue() && strings.Count(d.GetUsage(), "`") != 2 {
			t.Errorf("what --%s takes has no name", f.Names()[0])
		}
	}
}
