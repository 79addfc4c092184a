package main

import (
	"context"
	"fmt"
	"slices"

	"resyncd/cmd/resyncd/internal/control"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	syncengine "resyncd/sync"
)

// asked lets the daemon that holds a Source catch it up and shows what it does, as a run of our own would.
func (r *syncRun) asked(ctx context.Context, o *mirror.Opened) (results []syncengine.Result, done bool, err error) {
	return control.Pull(ctx, o, &control.Pulling{
		Args:     control.Args{Full: r.opts.Full, RetryFor: o.Config.Network.RetryFor},
		Before:   func() error { return r.honoured(o) },
		Progress: r.sh.Progress(o.Source.Name, r.c.Bool("quiet")),
		Ended:    func(res *syncengine.Result) error { return r.ended(&o.Place, res) },
	})
}

// honoured refuses what the daemon, which goes by its configuration alone, would do in another way than was asked for.
// A flag may repeat the configuration.
func (r *syncRun) honoured(o *mirror.Opened) error {
	plain, err := r.sh.settings(r.c).Plain()
	if err != nil {
		return err
	}
	src, _ := plain.Source(o.Source.Name)
	for _, flag := range []struct {
		name string
		same bool
	}{
		{"delete", src.Delete == o.Source.Delete},
		{"concurrency", src.Concurrency == o.Source.Concurrency},
		{"idle-timeout", plain.Network.IdleTimeout == o.Config.Network.IdleTimeout},
		{"sets", slices.Equal(src.Sets, o.Source.Sets)},
		{"from", false},
	} {
		if r.c.IsSet(flag.name) && !flag.same {
			return &exit.Error{Code: exit.Held, Err: fmt.Errorf("the daemon works on %s and goes by its "+
				"configuration: --%s cannot be honoured; leave it out, change the configuration and send the daemon "+
				"SIGHUP, or stop the daemon", o.Label(), flag.name)}
		}
	}
	return nil
}
