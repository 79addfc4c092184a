package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	syncengine "resyncd/sync"
)

func (sh *shell) historyCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "history", Usage: "what is known of one resource over time", ArgsUsage: "NAME URI",
		Description: about("Versions wanted and fetched, deletions, edits of a record, each with its evidence. URI is what `ls` shows: a\n"+
			"URL, the id of a feed's entry, or the subject of a record.", codesRead,
			"resyncd history ./mirror https://lib.example/theses/18.pdf"),
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
			detail := text(l.Detail)
			if l.EditLine != nil && l.Detail == nil {
				detail = editText(l.EditLine)
			}
			_, err = fmt.Fprintf(sh.out, "%-27s  %-13s  %-27s  %s  %s\n", text(l.At), l.What, text(l.Version), oneLine(detail), oneLine(text(l.Evidence)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// editText tells an edit of a record on one line: who said what of which fields, and what of that is odd.
func editText(e *syncengine.EditLine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "by %s:", text(e.Author))
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		if e.Fields[name] == "" {
			fmt.Fprintf(&b, " %s erased", name)
		} else {
			fmt.Fprintf(&b, " %s=%q", name, e.Fields[name])
		}
	}
	if len(e.Odd) > 0 {
		fmt.Fprintf(&b, "  # odd: %s", strings.Join(e.Odd, "; "))
	}
	return b.String()
}
