package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	syncengine "resyncd/sync"
)

func (sh *shell) historyCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "history", Usage: "what is known of one resource over time", ArgsUsage: "NAME URI",
		Description: "Versions wanted and fetched, deletions, each with its evidence.\n\n" +
			"   resyncd history ./mirror https://lib.example/theses/18.pdf",
		Flags: []cli.Flag{boolFlag("json", "one JSON object a line")},
		Action: func(c *cli.Context) error {
			return sh.withSource(c, "history [--json] NAME URI", 2, false, func(ctx context.Context, o *opened) error {
				return sh.history(ctx, o, c.Args().Get(1), c.Bool("json"))
			})
		},
	})
}

func (sh *shell) history(ctx context.Context, o *opened, uri string, asJSON bool) error {
	lines, err := syncengine.History(ctx, o.engine.Store, o.known.ID, uri)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		return fmt.Errorf("nothing is known of %s: see `resyncd ls %s`", uri, o.label())
	}
	enc := sh.json()
	for i := range lines {
		if asJSON {
			err = enc.Encode(&lines[i])
		} else {
			l := &lines[i]
			_, err = fmt.Fprintf(sh.out, "%-27s  %-13s  %-27s  %s  %s\n", text(l.At), l.What, text(l.Version), text(l.Detail), text(l.Evidence))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
