package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/sync/report"
)

// filters are the flags of ls, by the filter they stand for.
var filters = []struct {
	filter report.ListFilter
	text   string
}{
	{report.ListOwed, "only what is owed, with reason and next try"},
	{report.ListHeld, "only removals that wait for you"},
	{report.ListRefused, "only what is outside scope or policy"},
	{report.ListTrash, "only the trash"},
}

func (sh *shell) lsCommand() *cli.Command {
	flags := []cli.Flag{boolFlag("json", "one JSON object a line")}
	for _, f := range filters {
		flags = append(flags, boolFlag(string(f.filter), f.text))
	}
	return sh.command("ls [flags] NAME", 1, 1, &cli.Command{
		Name: "ls", Usage: "list the resources of a Source", ArgsUsage: "NAME",
		Description: about("Without a filter everything but trash and refused is listed.", codesRead,
			"resyncd ls --owed ./mirror", "resyncd ls --json lib"),
		Flags: flags,
		Action: func(c *cli.Context) error {
			filter := report.ListAll
			for _, f := range filters {
				if !c.Bool(string(f.filter)) {
					continue
				}
				if filter != report.ListAll {
					return exit.Usage("ls takes one filter: leave out --%s or --%s", filter, f.filter)
				}
				filter = f.filter
			}
			return sh.withSource(c, false, func(ctx context.Context, o *mirror.Opened) error {
				return sh.ls(ctx, o, filter, c.Bool("json"))
			})
		},
	})
}

func (sh *shell) ls(ctx context.Context, o *mirror.Opened, filter report.ListFilter, asJSON bool) error {
	out := bufio.NewWriterSize(sh.Out, 64<<10)
	enc := term.JSONTo(out)
	err := report.List(ctx, o.Engine.Store, o.Known.ID, filter, func(l report.Listing) error {
		if asJSON {
			return enc.Encode(l)
		}
		length := "-"
		if l.Length != nil {
			length = fmt.Sprint(*l.Length)
		}
		name := l.URI
		if name == "" {
			name = term.Text(l.Key)
		}
		_, err := fmt.Fprintf(out, "%-8s %12s  %-27s  %s\n", l.State, length, l.Changed,
			term.OneLine(name+term.Why(&l)))
		return err
	})
	return errors.Join(err, out.Flush())
}
