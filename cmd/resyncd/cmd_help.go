package main

import (
	"bytes"
	"cmp"
	"embed"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/template"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/internal/usage"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/store/sqlite"
)

// commandsPage is what is written of the commands, manTemplate the form of the manual page that is made of it.
//
//go:embed commands.yaml
var commandsPage string

//go:embed man.tmpl
var manTemplate string

// manualPages are what `resyncd help TOPIC` shows.
//
//go:embed docs/*.md
var manualPages embed.FS

// topics are the pages of the manual, in the order in which a reader meets them.
var topics = []string{"operate", "feeds", "push", "console", "layout", "service", "security", "contract", "performance",
	"testing", "faults"}

// commands are the texts of the program.
func commands() *usage.Command { return usage.Read(commandsPage, nil) }

// code is a text between backquotes.
var code = regexp.MustCompile("`([^`]*)`")

// manual is the manual page of the program, section 1. It bears neither date nor version, so that it changes only when
// the commands do.
func manual(page *usage.Command) ([]byte, error) {
	var b bytes.Buffer
	form, err := template.New("").Funcs(template.FuncMap{
		"paragraphs": func(text string) []string { return strings.Split(text, "\n\n") },
		"sentence":   func(text string) string { return strings.ToUpper(text[:1]) + text[1:] },
	}).Parse(manTemplate)
	if err == nil {
		err = form.Execute(&b, page)
	}
	// Hyphens are those that are typed, and groff reads ASCII only.
	plain := strings.NewReplacer("-", `\-`, "…", "...").Replace(b.String())
	return code.ReplaceAll([]byte(plain), []byte(`\fB$1\fR`)), err
}

func (sh *shell) man() error {
	page, err := manual(sh.program)
	if err == nil {
		_, err = sh.Out.Write(page)
	}
	return err
}

func (sh *shell) help() error {
	words := sh.c.Args().Slice()
	if len(words) == 1 && slices.Contains(topics, words[0]) {
		page, err := manualPages.ReadFile("docs/" + words[0] + ".md")
		if err == nil {
			_, err = sh.Out.Write(page)
		}
		return err
	}
	c := &cli.Command{Subcommands: sh.c.App.Commands}
	for i, word := range words {
		if c = c.Command(word); c == nil {
			return exit.Usage("there is neither a command nor a topic `%s`; see `resyncd help`",
				strings.Join(words[:i+1], " "))
		}
	}
	return sh.c.App.RunContext(sh.c.Context, slices.Concat([]string{sh.c.App.Name}, words, []string{"--help"}))
}

// topicTitle is the heading of a topic's page.
func topicTitle(topic string) string {
	page, _ := manualPages.ReadFile("docs/" + topic + ".md")
	title, _, _ := strings.Cut(strings.TrimPrefix(string(page), "# "), "\n")
	return title
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

func (sh *shell) completion() error {
	name := sh.c.Args().First()
	if !slices.Contains(shells, name) {
		return exit.Usage("there are no completions for %q: resyncd completion %s", name, strings.Join(shells, "|"))
	}
	script, err := completionScripts.ReadFile("packaging/completions/" + scripts[name])
	if err == nil {
		_, err = sh.Out.Write(script)
	}
	return err
}

// offer prints what the word at the cursor can become, each on a line with its help; nothing where that is a file. The
// scripts give the words before it, a - where it is a flag, and the library's own flag for this.
func (sh *shell) offer(c *cli.Context, page *usage.Command, flags []usage.Flag) {
	before := sh.args[len(sh.args)-2]
	all := slices.Concat(flags, sh.program.Common) // also before a command was chosen
	switch at := slices.IndexFunc(all, func(f usage.Flag) bool { return "--"+f.Name == before }); {
	case before == "-":
		for _, f := range flags {
			sh.offerWord("--"+f.Name, f.Text())
		}
		sh.offerWord("--help", "show help")
	case at >= 0 && (all[at].Words != nil || at < len(flags) && all[at].Type != ""):
		for _, value := range all[at].Words {
			sh.offerWord(value, "")
		}
	case c.NArg() > 0:
	case page.Name == "completion":
		for _, name := range shells {
			sh.offerWord(name, "")
		}
	case page.Name == "help":
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

func (sh *shell) offerWord(word, help string) { _ = sh.Print("%s\t%s\n", word, help) }

// version and revision are set by release builds (-ldflags "-X main.version=… -X main.revision=…"). Any other build is
// on its way to the newest version of the changelog.
var (
	version  = "0.10.0-dev"
	revision = ""
)

func (sh *shell) printVersion() error {
	return sh.Print("resyncd %s\ncommit %s\ngo %s %s/%s\nsqlite %s\n",
		version, commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH, sqlite.Version())
}

// commit is what a release was made from, else what the build recorded of its checkout.
func commit() string {
	var built string
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				built = s.Value
			}
		}
	}
	return cmp.Or(revision, built, "unknown")
}
