package main

import (
	"embed"
	"fmt"
	"io/fs"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/store/sqlite"
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

// manualPages are what `resyncd help TOPIC` shows.
//
//go:embed docs/*.md
var manualPages embed.FS

// topics are the pages of the manual, in the order in which a reader meets them.
var topics = []string{"operate", "feeds", "push", "console", "layout", "service", "security", "contract", "performance",
	"testing", "faults"}

// topicPage is the page of a topic.
func topicPage(topic string) ([]byte, error) { return fs.ReadFile(manualPages, "docs/"+topic+".md") }

// topicTitle is the heading of a topic's page.
func topicTitle(topic string) string {
	page, _ := topicPage(topic)
	title, _, _ := strings.Cut(strings.TrimPrefix(string(page), "# "), "\n")
	return title
}

func (sh *shell) helpCommand() *cli.Command {
	return sh.command("help [COMMAND|TOPIC]", 0, 2, &cli.Command{
		Name: "help", Aliases: []string{"h"}, Usage: "list commands and topics, or show the help of one",
		ArgsUsage: "[COMMAND|TOPIC]",
		Description: about("A topic is a page of the manual: "+strings.Join(topics, ", ")+".", codesHere,
			"resyncd help sync", "resyncd help operate"),
		Action: sh.help,
	})
}

func (sh *shell) help(c *cli.Context) error {
	words := c.Args().Slice()
	if len(words) == 0 {
		return cli.ShowAppHelp(c)
	}
	if len(words) == 1 && slices.Contains(topics, words[0]) {
		page, err := topicPage(words[0])
		if err != nil {
			return err
		}
		_, err = sh.Out.Write(page)
		return err
	}
	commands := c.App.Commands
	for i, word := range words {
		at := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(word) })
		if at < 0 {
			return exit.Usage("there is neither a command nor a topic `%s`; see `resyncd help`",
				strings.Join(words[:i+1], " "))
		}
		commands = commands[at].Subcommands
	}
	return c.App.RunContext(c.Context, slices.Concat([]string{c.App.Name}, words, []string{"--help"}))
}

// version and revision are set by release builds (-ldflags "-X main.version=… -X main.revision=…"). Any other build is
// on its way to the newest version of the changelog.
var (
	version  = "0.10.0-dev"
	revision = ""
)

func (sh *shell) versionCommand() *cli.Command {
	return sh.command("version", 0, 0, &cli.Command{
		Name: "version", Usage: "print version, commit, Go and SQLite", Description: about("", codesHere,
			"resyncd version"),
		Action: func(*cli.Context) error {
			_, err := fmt.Fprintf(sh.Out, "resyncd %s\ncommit %s\ngo %s %s/%s\nsqlite %s\n",
				version, commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH, sqlite.Version())
			return err
		},
	})
}

// commit is what a release was made from, else what the build recorded of its checkout.
func commit() string {
	if revision != "" {
		return revision
	}
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}
