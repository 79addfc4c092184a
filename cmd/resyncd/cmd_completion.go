package main

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/exit"
)

// completionScripts ask the program itself what a word can become (offer).
//
//go:embed packaging/completions/resyncd.bash packaging/completions/_resyncd packaging/completions/resyncd.fish
var completionScripts embed.FS

// shells are those that completions are made for, scripts the files of their completions.
var (
	shells  = []string{"bash", "zsh", "fish"}
	scripts = map[string]string{"bash": "resyncd.bash", "zsh": "_resyncd", "fish": "resyncd.fish"}
)

func (sh *shell) completionCommand() *cli.Command {
	form := "completion " + strings.Join(shells, "|")
	return sh.command(form, 1, 1, &cli.Command{
		Name: "completion", Usage: "print the completions of a shell", ArgsUsage: strings.Join(shells, "|"),
		Description: about("Commands, flags and the values of flags that have a few; the shell asks the program for "+
			"them.", codesHere,
			"resyncd completion bash > /etc/bash_completion.d/resyncd",
			"resyncd completion zsh > /usr/local/share/zsh/site-functions/_resyncd",
			"resyncd completion fish > ~/.config/fish/completions/resyncd.fish"),
		Action: func(c *cli.Context) error {
			name := c.Args().First()
			if !slices.Contains(shells, name) {
				return exit.Usage("there are no completions for %q: resyncd %s", name, form)
			}
			script, err := completionScripts.ReadFile("packaging/completions/" + scripts[name])
			if err != nil {
				return err
			}
			_, err = sh.Out.Write(script)
			return err
		},
	})
}

// flagValues are the values of flags that have a few; what other flags take is completed as a file.
var flagValues = map[string][]string{
	"--log-level":  {"debug", "info", "warn", "error"},
	"--log-format": {"text", "json"},
	"--delete":     {"trash", "keep", "now"},
}

// offer prints what the word at the cursor can become, each on a line with its help; nothing where that is a file. The
// scripts give the words before it, a - where it is a flag, and the library's own flag for this.
func (sh *shell) offer(c *cli.Context) {
	before := sh.args[len(sh.args)-2]
	switch {
	case before == "-":
		for _, f := range c.Command.Flags {
			_, help := flagHelp(f)
			sh.offerWord("--"+f.Names()[0], help)
		}
	case flagValues[before] != nil:
		for _, value := range flagValues[before] {
			sh.offerWord(value, "")
		}
	case strings.HasPrefix(before, "-") && takesValue(c.Command.Flags, before), c.NArg() > 0:
	case c.Command.Name == "completion":
		for _, name := range shells {
			sh.offerWord(name, "")
		}
	case c.Command.Name == "help":
		sh.offerCommands(c.App.Commands)
		for _, topic := range topics {
			sh.offerWord(topic, topicTitle(topic))
		}
	default:
		sh.offerCommands(c.Command.Subcommands)
	}
}

func (sh *shell) offerCommands(commands []*cli.Command) {
	for _, c := range commands {
		for _, name := range c.Names() {
			sh.offerWord(name, c.Usage)
		}
	}
}

func (sh *shell) offerWord(word, help string) { fmt.Fprintf(sh.Out, "%s\t%s\n", word, help) }

func takesValue(flags []cli.Flag, given string) bool {
	return slices.ContainsFunc(flags, func(f cli.Flag) bool {
		return described(f).TakesValue() && "--"+f.Names()[0] == given
	})
}
