package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/sync/report"
)

func (sh *shell) historyCommand() *cli.Command {
	return sh.command("history [--json] NAME URI", 2, 2, &cli.Command{
		Name: "history", Usage: "what is known of one resource over time", ArgsUsage: "NAME URI",
		Description: about("Versions wanted and fetched, deletions, edits of a record, each with its evidence. URI is "+
			"what `ls` shows: a URL, the id of a feed's entry, or the subject of a record.", codesRead,
			"resyncd history ./mirror https://lib.example/theses/18.pdf"),
		Flags: []cli.Flag{boolFlag("json", "one JSON object a line")},
		Action: func(c *cli.Context) error {
			return sh.withSource(c, false, func(ctx context.Context, o *mirror.Opened) error {
				return sh.history(ctx, o, c.Args().Get(1), c.Bool("json"))
			})
		},
	})
}

func (sh *shell) history(ctx context.Context, o *mirror.Opened, uri string, asJSON bool) error {
	lines, err := report.History(ctx, o.Engine.Store, o.Known.ID, uri)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		return fmt.Errorf("nothing is known of %s: see `resyncd ls %s`", uri, o.Label())
	}
	enc := sh.JSON()
	for i := range lines {
		if asJSON {
			err = enc.Encode(&lines[i])
		} else {
			l := &lines[i]
			detail := term.Text(l.Detail)
			if l.EditLine != nil && l.Detail == nil {
				detail = term.Edit(l.EditLine)
			}
			_, err = fmt.Fprintf(sh.Out, "%-27s  %-13s  %-27s  %s  %s\n", l.At, l.What, l.Version, term.OneLine(detail),
				term.OneLine(term.Text(l.Evidence)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
