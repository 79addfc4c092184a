package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	syncengine "resyncd/sync"
)

// filters are the flags of ls, by the filter they stand for.
var filters = []struct {
	filter syncengine.ListFilter
	text   string
}{
	{syncengine.ListOwed, "only what is owed, with reason and next try"},
	{syncengine.ListHeld, "only removals that wait for you"},
	{syncengine.ListRefused, "only what is outside scope or policy"},
	{syncengine.ListTrash, "only the trash"},
}

func (sh *shell) lsCommand() *cli.Command {
	flags := []cli.Flag{boolFlag("json", "one JSON object a line")}
	for _, f := range filters {
		flags = append(flags, boolFlag(string(f.filter), f.text))
	}
	return sh.command(&cli.Command{
		Name: "ls", Usage: "list the resources of a Source", ArgsUsage: "NAME",
		Description: about("Without a filter everything but trash and refused is listed.", codesRead, "resyncd ls --owed ./mirror", "resyncd ls --json lib"),
		Flags:       flags,
		Action: func(c *cli.Context) error {
			filter := syncengine.ListAll
			for _, f := range filters {
				if !c.Bool(string(f.filter)) {
					continue
				}
				if filter != syncengine.ListAll {
					return usage("ls takes one filter: leave out --%s or --%s", filter, f.filter)
				}
				filter = f.filter
			}
			return sh.withSource(c, "ls [flags] NAME", 1, false, func(ctx context.Context, o *opened) error {
				return sh.ls(ctx, o, filter, c.Bool("json"))
			})
		},
	})
}

func (sh *shell) ls(ctx context.Context, o *opened, filter syncengine.ListFilter, asJSON bool) error {
	out := bufio.NewWriterSize(sh.out, 64<<10)
	enc := jsonTo(out)
	err := syncengine.List(ctx, o.engine.Store, o.known.ID, filter, func(l syncengine.Listing) error {
		if asJSON {
			return enc.Encode(l)
		}
		length := "-"
		if l.Length != nil {
			length = fmt.Sprint(*l.Length)
		}
		name := l.URI
		if name == "" {
			name = text(l.Key)
		}
		_, err := fmt.Fprintf(out, "%-8s %12s  %-27s  %s\n", l.State, length, text(l.Changed), oneLine(name+why(&l)))
		return err
	})
	return errors.Join(err, out.Flush())
}

// why is the reason of a state, where there is one.
func why(l *syncengine.Listing) string {
	s := ""
	if l.Reason != nil {
		s = "  # " + *l.Reason
	}
	if l.Attempts != nil && l.NextTry != nil {
		s += fmt.Sprintf(" (attempts %d, next try %s)", *l.Attempts, *l.NextTry)
	}
	return s
}
