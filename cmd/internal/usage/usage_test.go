package usage

import (
	"fmt"
	"strings"
	"testing"
)

// TestRead: a page with a mistake is not read, and the mistake is named.
func TestRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ flag, want string }{
		{"{name: a, type: int, value: 3}", ""},
		{"{name: a}", ""},
		{"{name: a, type: sting}", `--a of x: there is no type "sting"`},
		{"{name: a, type: int, value: much}", "--a of x: "},
		{"{name: a, type: duration, value: 3}", "--a of x: "},
		{"{name: a, tpye: int}", "tpye"},
	} {
		for _, page := range []string{"name: x\nflags: [%s]", "name: y\ncommands: [{name: x, flags: [%s]}]", "name: x\ncommon: [%s]"} {
			if got := mistake(fmt.Sprintf(page, c.flag)); !strings.Contains(got, c.want) || got != "" && c.want == "" {
				t.Errorf("%s: %q, want %q", c.flag, got, c.want)
			}
		}
	}
}

func mistake(page string) (found string) {
	defer func() {
		if err := recover(); err != nil {
			found = fmt.Sprint(err)
		}
	}()
	Read(page, nil)
	return ""
}
