package main

import (
	"context"
	"fmt"
	"slices"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/control"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	syncengine "resyncd/sync"
)

// asked lets the daemon catch one Source up and shows what it does, as a run of our own would.
func (r *syncRun) asked(ctx context.Context, o *mirror.Opened, held error) ([]syncengine.Result, error) {
	if o.AdHoc {
		return nil, held
	}
	if err := r.honoured(o); err != nil {
		return nil, err
	}
	ask := control.Args{Full: r.opts.Full, RetryFor: o.Config.Network.RetryFor}
	progress := r.sh.Progress(o.Source.Name, r.c.Bool("quiet"))
	return control.Pull(ctx, o, ask, progress, held, func(res *syncengine.Result) error {
		return r.ended(&o.Place,
			res)
	})
}

// daemonFlags are those of `sync` that the daemon takes from its configuration alone.
var daemonFlags = []string{"delete", "concurrency", "idle-timeout", "sets", "from"}

// honoured refuses what the daemon would do in another way than was asked for.
func (r *syncRun) honoured(o *mirror.Opened) error {
	plain, err := r.unflagged(o)
	if err != nil {
		return err
	}
	for _, flag := range daemonFlags {
		if !r.c.IsSet(flag) || plain.equal(flag, o) {
			continue
		}
		return &exit.Error{Code: exit.Held, Err: fmt.Errorf("the daemon works on %s and goes by its configuration: "+
			"--%s cannot be honoured; leave it out, change the configuration and send the daemon SIGHUP, or "+
			"stop the daemon", o.Label(), flag)}
	}
	return nil
}

// configuredAs is what the configuration says without flags.
type configuredAs struct {
	cfg *config.Config
	src config.Source
}

func (r *syncRun) unflagged(o *mirror.Opened) (configuredAs, error) {
	cfg, err := r.sh.settings(r.c).Plain()
	if err != nil {
		return configuredAs{}, err
	}
	src, _ := cfg.Source(o.Source.Name)
	return configuredAs{cfg: cfg, src: src}, nil
}

// equal reports whether a flag only repeats the configuration.
func (c *configuredAs) equal(flag string, o *mirror.Opened) bool {
	switch flag {
	case "delete":
		return c.src.Delete == o.Source.Delete
	case "concurrency":
		return c.src.Concurrency == o.Source.Concurrency
	case "idle-timeout":
		return c.cfg.Network.IdleTimeout == o.Config.Network.IdleTimeout
	case "sets":
		return slices.Equal(c.src.Sets, o.Source.Sets)
	}
	return false
}
