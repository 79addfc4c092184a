// Package helptest knows what the help of a companion program has to tell. It refuses to know what the program does.
package helptest

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/internal/usage"
)

// Check insists that a help has examples, of flags that there are, and exit codes, and that every flag names its value.
func Check(t *testing.T, page *usage.Command) {
	t.Helper()
	for _, example := range page.Examples {
		if !strings.HasPrefix(example, page.Name+" ") {
			t.Errorf("%q is of another program", example)
		}
		for word := range strings.FieldsSeq(example) {
			name, isFlag := strings.CutPrefix(word, "--")
			if isFlag && !slices.ContainsFunc(page.Flags, func(f usage.Flag) bool { return f.Name == name }) {
				t.Errorf("there is no %s, as in %q", word, example)
			}
		}
	}
	if len(page.Examples) < 2 || !strings.Contains(page.About, "Exit codes: 0 ended by a signal; 1 failed") {
		t.Errorf("%d examples, or no exit codes, in:\n%s", len(page.Examples), page.About)
	}
	app := page.App(usage.Program{})
	for i, f := range page.Flags {
		if f.Type != "" && strings.Count(f.Usage, "`") != 2 {
			t.Errorf("what --%s takes has no name", f.Name)
		}
		if got := app.Flags[i].(cli.DocGenerationFlag).GetValue(); f.Value != "" && got != f.Value {
			t.Errorf("--%s is %s where it is not given, want %s", f.Name, got, f.Value)
		}
	}
}
