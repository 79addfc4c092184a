package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/store"
	"resyncd/store/blob"
)

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
