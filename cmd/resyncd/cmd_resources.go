package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	"resyncd/store/blob"
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
		_, err := fmt.Fprintf(out, "%-8s %12s  %-27s  %s\n", l.State, length, l.Changed,
			term.OneLine(cmp.Or(l.URI, term.Text(l.Key))+term.Why(&l)))
		return err
	})
	return errors.Join(err, out.Flush())
}

func (sh *shell) catCommand() *cli.Command {
	return sh.command("cat NAME URI", 2, 2, &cli.Command{
		Name: "cat", Usage: "print the mirrored bytes of one resource", ArgsUsage: "NAME URI",
		Description: about("URI is what `ls` shows: a URL, the id of a feed's entry, or the subject of a record.",
			codesRead,
			"resyncd cat ./mirror https://lib.example/theses/18.pdf > 18.pdf"),
		Action: func(c *cli.Context) error {
			return sh.withSource(c, false, func(ctx context.Context, o *mirror.Opened) error {
				return sh.cat(ctx, o, c.Args().Get(1))
			})
		},
	})
}

func (sh *shell) cat(ctx context.Context, o *mirror.Opened, uri string) (err error) {
	r, err := o.Engine.Store.Resource(ctx, o.Known.ID, uri)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("%s knows no resource %s: see `resyncd ls %s`", o.Label(), uri, o.Label())
	case err != nil:
		return err
	case r.Have.State == store.HaveNone:
		return fmt.Errorf("%s is not in the mirror: see `resyncd history %s %s`", uri, o.Label(), uri)
	}
	if err := o.OpenMirror(false); err != nil {
		return err
	}
	f, _, err := o.Target.Mirror.Open(ctx, r.Key)
	if errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrNotRegular) {
		return fmt.Errorf("%w: run `resyncd verify --repair %s`", err, o.Label())
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(sh.Out, f)
	return err
}

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
