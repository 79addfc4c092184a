package main

import (
	"embed"
	"io/fs"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/exit"
)

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
