package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"resyncd/store"
	syncengine "resyncd/sync"
)

func (sh *shell) statusCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "status", Usage: "freshness, owed, held and gaps of Sources", ArgsUsage: "[NAME…]",
		Description: "Reads the state only; works beside a running process.\n\n   resyncd status ./mirror",
		Flags:       []cli.Flag{boolFlag("json", "one JSON object")},
		Action: func(c *cli.Context) error {
			ps, err := sh.places(c, c.Args().Slice())
			if err != nil && !errors.Is(err, errNoSources) { // a configuration without any has a status too
				return err
			}
			return sh.status(c, ps)
		},
	})
}

// statusView is the JSON of status (contract.md 3).
type statusView struct {
	Version string                    `json:"version"`
	Sources []syncengine.SourceStatus `json:"sources"`
}

func (sh *shell) status(c *cli.Context, ps []place) error {
	view := statusView{Version: version, Sources: []syncengine.SourceStatus{}}
	var v verdict
	for i := range ps {
		s, err := sh.statusOf(c.Context, c, &ps[i])
		switch {
		case c.Context.Err() != nil, err != nil && len(ps) == 1:
			return err
		case err != nil: // told, and the others shown
			v.fail(err)
			sh.say("%s: %s", ps[i].label(), advised(err))
		default:
			v.parts++
			view.Sources = append(view.Sources, s)
		}
	}
	if c.Bool("json") {
		return errors.Join(sh.json().Encode(view), v.err())
	}
	for i := range view.Sources {
		printStatus(sh.out, &view.Sources[i])
	}
	return v.err()
}

// statusOf reads one Source; a configured one that never ran stands there without sets.
func (sh *shell) statusOf(ctx context.Context, c *cli.Context, p *place) (s syncengine.SourceStatus, err error) {
	s = syncengine.SourceStatus{Name: p.src.Name, URL: p.src.URL, Sets: []syncengine.SetStatus{}}
	o, err := sh.openKnown(ctx, c, p, false)
	if errors.Is(err, store.ErrNotFound) && !p.alone {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s, err = syncengine.StatusOf(ctx, o.engine.Store, o.known)
	return s, errors.Join(err, o.close())
}

func printStatus(w io.Writer, s *syncengine.SourceStatus) {
	fmt.Fprintf(w, "%s  %s\n", s.Name, s.URL)
	if s.Paused {
		fmt.Fprintln(w, "  paused: `resyncd source resume` restarts it")
	}
	if len(s.Sets) == 0 {
		fmt.Fprintln(w, "  never synchronised")
	}
	for i := range s.Sets {
		set := &s.Sets[i]
		state := "in step"
		if !set.InStep {
			state = "NOT in step"
		}
		fmt.Fprintf(w, "  %s\n    %s, up to %s, last pull %s\n    %d resources, %s; %d owed, %d held, %d refused; %d baselines\n",
			set.CapabilityList, state, text(set.Position), text(set.LastPull), set.Resources, bytesText(set.Bytes), set.Owed,
			set.Held, set.Refused, set.Baselines)
		if set.Problem != nil {
			fmt.Fprintf(w, "    problem: %s\n", *set.Problem)
		}
		for _, g := range set.Gaps {
			fmt.Fprintf(w, "    gap %s to %s: %s", text(g.From), text(g.Until), g.State)
			if g.ClosedBy != nil {
				fmt.Fprintf(w, " by %s", *g.ClosedBy)
			}
			fmt.Fprintln(w)
		}
	}
}
