package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/internal/usage"
	"resyncd/cmd/resyncd/internal/exit"
)

// TestHelp: every command has a help with an example of itself that would run, and its exit codes.
func TestHelp(t *testing.T) {
	t.Parallel()
	sh, _, _ := faceShell(false)
	program, app, actions, seen := sh.program, sh.app(), sh.actions(), 0
	if !strings.Contains(app.Description, codesLead) {
		t.Error("the program's help has no exit codes")
	}
	for path, c := range program.All() {
		seen++
		called, rest := calledBy(app, strings.Fields(path)[1:])
		if called == nil || len(rest) > 0 {
			t.Fatalf("%s: there is no such command", path)
		}
		if does := actions[strings.TrimPrefix(path, "resyncd ")]; (does == nil) != (len(c.Commands) > 0) {
			t.Errorf("%s: does it do something, or hold commands that do?", path)
		}
		for _, example := range c.Examples {
			tryExample(t, app, path, called, example)
		}
		for text := range strings.SplitSeq(called.Description, "\n") {
			if len([]rune(text)) > 121 {
				t.Errorf("%s: %q is too long for a terminal", path, text)
			}
		}
		if len(c.Examples) == 0 || !strings.Contains(called.Description, "\n"+codesLead+"0 done") {
			t.Errorf("%s: %d examples, or no exit codes, in:\n%s", path, len(c.Examples), called.Description)
		}
		if c.Usage == "" || strings.HasSuffix(c.Usage, ".") {
			t.Errorf("%s: the usage %q is no short line", path, c.Usage)
		}
		for _, f := range slices.Concat(c.Flags, program.Common) {
			if f.Usage == "" {
				t.Errorf("%s: --%s has no help", path, f.Name)
			}
			if f.Type != "" && f.Takes() == "" {
				t.Errorf("%s: what --%s takes has no name", path, f.Name)
			}
		}
		for _, f := range slices.Concat(c.Flags, program.Common) {
			at := slices.IndexFunc(called.Flags, func(made cli.Flag) bool { return made.Names()[0] == f.Name })
			switch {
			case at < 0:
				if len(c.Commands) == 0 {
					t.Errorf("%s: --%s is not read", path, f.Name)
				}
			case f.Value != "" && called.Flags[at].(cli.DocGenerationFlag).GetValue() != f.Value:
				t.Errorf("%s: --%s is not %q where it is not given", path, f.Name, f.Value)
			}
		}
	}
	for i, code := range []int{exit.Done, exit.Failed, exit.Misused, exit.Owed, exit.Differences, exit.Held, exit.Interrupted} {
		if program.Endings[i].Code != code {
			t.Errorf("the ending %d is told as %+v", code, program.Endings[i])
		}
	}
	if groups := 3; seen < 25 || seen != len(actions)+groups {
		t.Errorf("%d commands were seen, %d do something", seen, len(actions))
	}
}

// calledBy is the command that words call, and the words behind it.
func calledBy(app *cli.App, words []string) (c *cli.Command, rest []string) {
	commands := app.Commands
	for len(words) > 0 {
		at := slices.IndexFunc(commands, func(sub *cli.Command) bool { return sub.HasName(words[0]) })
		if at < 0 {
			break
		}
		c, commands, words = commands[at], commands[at].Subcommands, words[1:]
	}
	return c, words
}

// tryExample insists that an example is of the command (of a group: of one within), and has only flags that there are,
// before the arguments.
func tryExample(t *testing.T, app *cli.App, path string, c *cli.Command, example string) {
	t.Helper()
	if !strings.HasPrefix(example, path) {
		t.Errorf("%s: its example is %q", path, example)
		return
	}
	of, words := calledBy(app, strings.Fields(example)[1:])
	if len(c.Subcommands) == 0 && of != c || len(of.Subcommands) > 0 {
		t.Errorf("%s: %q is of another command", path, example)
	}
	arguments := false
	for i := 0; i < len(words) && words[i] != ">" && words[i] != "|"; i++ {
		name, isFlag := strings.CutPrefix(words[i], "--")
		if !isFlag {
			arguments = true
			continue
		}
		at := slices.IndexFunc(of.Flags, func(f cli.Flag) bool { return f.Names()[0] == name })
		if at < 0 || arguments {
			t.Errorf("%s: %s does not stand in its place in %q", path, words[i], example)
			return
		}
		if of.Flags[at].(cli.DocGenerationFlag).TakesValue() {
			i++
		}
	}
}

// flat is a text on one line.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// codesLead begins the paragraph on exit codes.
const codesLead = "Exit codes: "

// TestManualPages: every page of the manual is a topic, has a title, and goes by no command's name.
func TestManualPages(t *testing.T) {
	t.Parallel()
	files, err := manualPages.ReadDir("docs")
	if err != nil || len(files) != len(topics) {
		t.Errorf("%d pages, %d topics: %v", len(files), len(topics), err)
	}
	if list := strings.Join(topics, ", ") + "."; strings.Count(flat(commandsPage), list) != 2 {
		t.Errorf("the help does not name the topics %s", list)
	}
	sh, _, _ := faceShell(false)
	for _, topic := range topics {
		if page, err := manualPages.ReadFile("docs/" + topic + ".md"); err != nil || !strings.HasPrefix(string(page), "# ") || topicTitle(topic) == "" {
			t.Errorf("%s: no page with a title: %v", topic, err)
		}
		if c, _ := calledBy(sh.app(), []string{topic}); c != nil {
			t.Errorf("%s is a command too", topic)
		}
	}
}

// TestCodes: the codes of a command are told in the words of the table of all, but for a 0 that says nothing of the
// mirror.
func TestCodes(t *testing.T) {
	t.Parallel()
	program := commands()
	told := map[string]bool{"0 done": true}
	for _, e := range program.Endings {
		told[fmt.Sprint(e.Code, " ", e.Text)] = true
	}
	for path, c := range program.All() {
		text := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(c.Codes, codesLead), "."), "\n", " ")
		for code := range strings.SplitSeq(text, "; ") {
			if !told[code] {
				t.Errorf("%s: what is %q?", path, code)
			}
		}
		if strings.Contains(text, "0 done and in step; ") != strings.Contains(text, "; 3 ") {
			t.Errorf("%s: 0 tells of the mirror, or not: %q", path, text)
		}
	}
	page := usage.Command{About: "What it does.", Codes: "Exit codes: 0 done.", Examples: []string{"resyncd x", "resyncd x y"}}
	if got, want := page.Description(), "What it does.\n\n   resyncd x\n   resyncd x y\n\nExit codes: 0 done."; got != want {
		t.Errorf("%q", got)
	}
	if got := program.Codes; !strings.Contains(got, "0 done and in step;") || !strings.Contains(got, "4 differences") {
		t.Error(got)
	}
}

// TestManual: all commands and their flags are in it, and groff, where it is there, has nothing to complain of.
func TestManual(t *testing.T) {
	page, err := manual(commands())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{".TH RESYNCD 1 ", `.SS resyncd subscription renew [flags] [NAME...]`, `\fB\-\-delete MODE\fP`, ".SH EXIT STATUS", `\fB130\fP`} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("no %q in the manual page", want)
		}
	}
	if bytes.Contains(page, []byte(codesLead)) {
		t.Error("exit codes are told for each command; they have a section of their own")
	}
	file := filepath.Join(t.TempDir(), "resyncd.1")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := runTool(t, "groff", "-man", "-Tutf8", "-ww", "-z", file); out != "" {
		t.Error(out)
	}
}

// TestMain has the test binary be the program where a completion asks for it.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "resyncd" {
		os.Exit(program())
	}
	os.Exit(m.Run())
}

// TestCompletion asks shells that are there what they would complete to.
func TestCompletion(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "resyncd")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	cases := map[string]string{ // the words before the cursor: all that they can become, in order
		"resyncd so":                    "source",
		"resyncd source ":               "forget pause resume",
		"resyncd catch-up --dr":         "--dry-run",
		"resyncd sync --delete ":        "keep now trash",
		"resyncd ls --json --o":         "--owed",
		"resyncd completion ":           "bash fish zsh",
		"resyncd help oper":             "operate",
		"resyncd subscription renew --": "--config --help --log-format --log-level --quiet --topic",
	}
	ask := map[string]string{
		"bash": `source "$1"; read -ra COMP_WORDS <<<"$2"; [[ $2 == *" " ]] && COMP_WORDS+=(""); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _resyncd; printf '%s\n' "${COMPREPLY[@]}"`,
		"fish": `source $argv[1]; complete -C "$argv[2]" | string split -f 1 \t; true`,
	}
	for shell, script := range ask {
		t.Run(shell, func(t *testing.T) {
			tool(t, shell)
			for given, want := range cases {
				args := []string{"-c", script, filepath.Join("completions", scripts[shell]), given}
				if shell == "bash" {
					args = slices.Insert(args, 2, "bash")
				}
				got := strings.Fields(runTool(t, shell, args...))
				slices.Sort(got)
				if strings.Join(got, " ") != want {
					t.Errorf("%q becomes %q, want %q", given, got, want)
				}
			}
		})
	}
	t.Run("zsh", func(t *testing.T) { runTool(t, "zsh", "-n", filepath.Join("completions", scripts["zsh"])) })
}
