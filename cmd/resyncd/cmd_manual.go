package main

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/exit"
)

func (sh *shell) manCommand() *cli.Command {
	return sh.command("man", 0, 0, &cli.Command{
		Name: "man", Usage: "print the manual page",
		Description: about("It is made from the commands themselves, as is all of their help.", codesHere,
			"resyncd man > /usr/local/share/man/man1/resyncd.1", "resyncd man | man -l -"),
		Action: func(*cli.Context) error {
			_, err := sh.Out.Write(manual(sh.app()))
			return err
		},
	})
}

// manual is the manual page of a program, section 1. It bears neither date nor version, so that it changes only when
// the commands do.
func manual(app *cli.App) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%% %s 1 \"\" %q \"User Commands\"\n\n# NAME\n\n%[2]s - %[3]s\n\n"+
		"# SYNOPSIS\n\n**%[2]s** *COMMAND* [*flags*] [*arguments*]\n\n", strings.ToUpper(app.Name), app.Name, app.Usage)
	b.WriteString("# DESCRIPTION\n\n" + manualText(app.Description) + "# COMMANDS\n\n" +
		"Flags stand before arguments. Results go to stdout; messages, log and progress to stderr.\n\n")
	for path, c := range walk(app.Name, app.Commands) {
		if len(c.Subcommands) > 0 {
			continue
		}
		fmt.Fprintf(&b, "### %s\n\n", strings.TrimSpace(path+" [flags] "+c.ArgsUsage))
		for _, alias := range c.Aliases {
			fmt.Fprintf(&b, "(also `%s`)\n", alias)
		}
		fmt.Fprintf(&b, "%s%s.\n\n%s", strings.ToUpper(c.Usage[:1]), c.Usage[1:], manualText(c.Description))
		for _, f := range c.Flags {
			if !common(f) {
				b.WriteString(manualFlag(f))
			}
		}
	}
	b.WriteString("# COMMON FLAGS\n\n")
	for _, f := range app.Commands[0].Flags { // all commands have them
		if common(f) {
			b.WriteString(manualFlag(f))
		}
	}
	b.WriteString("# EXIT STATUS\n\n")
	for _, c := range codeTexts {
		b.WriteString(manualItem(fmt.Sprint(c.code), c.text))
	}
	b.WriteString("# ENVIRONMENT\n\n" +
		manualItem("RESYNCD_CONFIG", "the configuration file, where --config does not name one") +
		manualItem("RESYNCD_SECTION_KEY", "any key of the configuration outside `sources`, such as "+
			"RESYNCD_NETWORK_RETRY_FOR; stronger than the file, weaker than flags") +
		manualItem("NO_COLOR", "not empty: no colours in the log on a terminal") +
		"# FILES\n\n" +
		manualItem("./resyncd.yaml, /etc/resyncd/resyncd.yaml", "the configuration, the first that exists; `resyncd "+
			"config init` writes one, every key explained") +
		manualItem("DIR/.resyncd/", "state, stage, trash and root marker of a mirror; never part of the copy"))
	// Hyphens are those that are typed, and groff reads ASCII only.
	plain := strings.NewReplacer(`\-`, `\-`, "-", `\-`, "…", "...")
	return []byte(plain.Replace(string(md2man.Render([]byte(b.String())))))
}

// walk goes through commands, depth first and in their order, each with its path.
func walk(path string, commands []*cli.Command) func(yield func(string, *cli.Command) bool) {
	return func(yield func(string, *cli.Command) bool) {
		for _, c := range commands {
			p := path + " " + c.Name
			if !yield(p, c) {
				return
			}
			for sub, c := range walk(p, c.Subcommands) {
				if !yield(sub, c) {
					return
				}
			}
		}
	}
}

// commonFlags are those that sh.command gives to every command.
var commonFlags = []string{"config", "log-level", "log-format", "quiet"}

func common(f cli.Flag) bool { return slices.Contains(commonFlags, f.Names()[0]) }

// manualText is a description in Markdown, without the paragraph on exit codes, which have a section of their own.
func manualText(description string) string {
	text, _, _ := strings.Cut(description, codesLead)
	return strings.ReplaceAll("\n"+text, "\n"+exampleLead, "\n    "+exampleLead)[1:] + "\n\n"
}

// manualFlag is what a flag is for, its default where it has one.
func manualFlag(f cli.Flag) string {
	value, text := flagHelp(f)
	name, d := "--"+f.Names()[0], described(f)
	if d.TakesValue() {
		name += " " + value
		if def := d.GetDefaultText(); def != "" {
			text += " (default: " + def + ")"
		}
	}
	return manualItem(name, text)
}

func manualItem(name, text string) string { return fmt.Sprintf("**%s**\n: %s\n\n", name, text) }

// described is a flag as help shows it, which all of the library can.
func described(f cli.Flag) cli.DocGenerationFlag {
	d, _ := f.(cli.DocGenerationFlag)
	return d
}

// flagHelp takes the name of a flag's value, which stands between backquotes, out of its usage.
func flagHelp(f cli.Flag) (value, text string) {
	before, rest, _ := strings.Cut(described(f).GetUsage(), "`")
	name, after, _ := strings.Cut(rest, "`")
	return cmp.Or(name, "VALUE"), before + name + after
}

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
