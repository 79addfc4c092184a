package main

import (
	"strings"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	syncengine "resyncd/sync"
)

func (sh *shell) syncCommand() *cli.Command {
	return sh.command("", 0, -1, &cli.Command{
		Name: "sync", Aliases: []string{"catch-up"},
		Usage:     "catch up once: URL into DIR, or configured Sources",
		ArgsUsage: "URL DIR | [NAME…]",
		Description: about("Finds what the Source offers and makes the mirror an exact copy. Run again, it fetches "+
			"only what changed; killed at any moment and run again, it goes on. URL is a site, Source Description, "+
			"Capability List, Resource List, Change List or feed; the state lies in DIR/.resyncd. Without arguments "+
			"all configured Sources are caught up.", codesSync,
			"resyncd sync https://lib.example/ ./mirror",
			"resyncd sync --dry-run https://lib.example/ ./mirror",
			"resyncd sync --quiet --json lib"),
		Flags: []cli.Flag{
			boolFlag("dry-run", "name what would be fetched and deleted; touch and create nothing"),
			boolFlag("full", "take a baseline even if none is needed"),
			&cli.StringFlag{Name: "from", Usage: "position (W3C `TIME`) for sets that have none; they get no " +
				"baseline then"},
			&cli.StringFlag{Name: "delete", Usage: "what happens to files of deleted resources: `MODE` trash, " +
				"keep or now", DefaultText: "as configured, trash"},
			&cli.StringFlag{Name: "sets", Usage: "only these Capability Lists: `URL,…`"},
			&cli.IntFlag{Name: "concurrency", Usage: "at most `N` parallel fetches per host",
				DefaultText: "as configured, 16"},
			&cli.DurationFlag{Name: "retry-for", Usage: "`TIME` for which failures are retried before they " +
				"are left owed", DefaultText: "as configured, 30s"},
			&cli.DurationFlag{Name: "idle-timeout", Usage: "cut a transfer that moves nothing for this `TIME`",
				DefaultText: "as configured, 60s"},
			boolFlag("json", "one JSON line per set"),
		},
		Action: sh.sync,
	})
}

func (sh *shell) sync(c *cli.Context) error {
	opts := syncengine.RunOptions{Full: c.Bool("full"), From: store.NoTime}
	if from := c.String("from"); c.IsSet("from") {
		at, err := rsdoc.ParseMicros(from)
		if err != nil {
			return exit.Usage("--from %q: %w; write it as 2026-01-31T00:00:00Z", from, err)
		}
		opts.From = store.Micros(at)
		if err := syncengine.CheckFrom(opts.From, sh.Now()); err != nil {
			return exit.Usage("--from %q: %w", from, err)
		}
	}
	ps, err := sh.syncPlaces(c)
	if err != nil {
		return err
	}
	if c.IsSet("sets") {
		sets := strings.Split(c.String("sets"), ",")
		for i := range ps {
			if ps[i].Source.Kind == config.KindFeed {
				return exit.Usage("--sets: %s is a feed, which is one set by itself: leave --sets out", ps[i].Label())
			}
			for _, set := range sets {
				if _, err := ps[i].Config.Adhoc("set", set); err != nil {
					return exit.Usage("--sets: %q %w", set, err)
				}
			}
			ps[i].Source.Sets = sets
		}
	}
	run := &syncRun{sh: sh, c: c, opts: opts}
	for i := range ps {
		if err := run.one(c.Context, &ps[i]); err != nil {
			return err
		}
	}
	return run.verdict.Err()
}

// syncPlaces: an argument with "://" makes it `sync URL DIR`.
func (sh *shell) syncPlaces(c *cli.Context) ([]mirror.Place, error) {
	const form = "sync URL DIR, or resyncd sync [NAME…]"
	given := c.Args().Slice()
	urls := 0
	for _, a := range given {
		if strings.Contains(a, "://") {
			urls++
		}
	}
	switch {
	case urls == 0:
		return sh.opener(c).Places(given)
	case urls > 1 || !strings.Contains(given[0], "://"):
		return nil, exit.Usage("usage: resyncd %s: the URL comes first, and is one; several Sources go into a "+
			"configuration (`resyncd config init`)", form)
	case len(given) == 1:
		return nil, exit.Usage("the folder for the mirror is missing: resyncd sync %s DIR", given[0])
	case len(given) > 2:
		return nil, exit.Usage("usage: resyncd %s: one URL and one folder; see `resyncd sync --help`", form)
	}
	p, err := sh.opener(c).Adhoc(given[1], given[0])
	return []mirror.Place{p}, err
}
