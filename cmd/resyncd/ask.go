package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/store"
	syncengine "resyncd/sync"
)

// entrust has the daemon carry out a command, if one holds the Source. done is false if nobody does, and the command must
// see for itself; a living process that takes no request, be it stopped or a `sync`, is an error that says who it is.
func (sh *shell) entrust(ctx context.Context, c *cli.Context, o *opened, command string, a askArgs) (done bool, err error) {
	held, err := sh.daemonHolds(c, o)
	if held == nil || err != nil {
		return false, err
	}
	e := &errand{
		requests: o.engine.Store,
		request:  store.Request{Source: o.src.Name, Command: command, Args: a.encode(), Created: store.MicrosOf(sh.now())},
		line: func(line string) error {
			_, err := fmt.Fprintln(sh.out, line)
			return err
		},
	}
	switch err = e.run(ctx); {
	case errors.Is(err, errNobody): // who held it may be gone by now
		held, err = sh.daemonHolds(c, o)
		return held != nil, errors.Join(held, err)
	case errors.Is(err, errStuck):
		return true, held
	}
	return true, err
}

// nobody says who holds the Source where no daemon took the request.
func nobody(err, held error) error {
	if errors.Is(err, errNobody) || errors.Is(err, errStuck) {
		return held
	}
	return err
}

// asked lets the daemon catch one Source up and shows what it does, as a run of our own would.
func (r *syncRun) asked(ctx context.Context, o *opened, held error) (results []syncengine.Result, err error) {
	if o.alone {
		return nil, held
	}
	if err := r.honoured(o); err != nil {
		return nil, err
	}
	progress := r.sh.progress(o.src.Name, r.c.Bool("quiet"))
	e := &errand{
		requests: o.engine.Store,
		request: store.Request{
			Source: o.src.Name, Command: askSync, Created: store.MicrosOf(r.sh.now()),
			Args: askArgs{Full: r.opts.Full, RetryFor: o.cfg.Network.RetryFor}.encode(),
		},
		line: func(line string) error {
			res, err := decodeSet(line)
			if err != nil {
				return err
			}
			results = append(results, res)
			return r.ended(&o.place, &res)
		},
		progress: func(state []byte) {
			var done workDone
			if json.Unmarshal(state, &done) == nil { // one that cannot be read is left out, the next one comes soon
				progress.set(&done)
			}
		},
	}
	err = nobody(progress.while(ctx, e.run), held)
	var told *coded
	if errors.As(err, &told) && told.err == nil && len(results) > 0 { // the results say it, and are counted here
		err = nil
	}
	return results, err
}

// daemonFlags are those of `sync` that the daemon takes from its configuration alone.
var daemonFlags = []string{"delete", "concurrency", "idle-timeout", "sets", "from"}

// honoured refuses what the daemon would do in another way than was asked for.
func (r *syncRun) honoured(o *opened) error {
	plain, err := r.unflagged(o)
	if err != nil {
		return err
	}
	for _, flag := range daemonFlags {
		if !r.c.IsSet(flag) || plain.equal(flag, o) {
			continue
		}
		return &coded{code: exitHeld, err: fmt.Errorf("the daemon works on %s and goes by its configuration: --%s cannot be honoured; leave it out, change the configuration and send the daemon SIGHUP, or stop the daemon", o.label(), flag)}
	}
	return nil
}

// configuredAs is what the configuration says without flags.
type configuredAs struct {
	cfg *config.Config
	src config.Source
}

func (r *syncRun) unflagged(o *opened) (configuredAs, error) {
	path, err := config.Find(r.c.String("config"), r.sh.env)
	if err != nil {
		return configuredAs{}, usage("%w", err)
	}
	cfg, err := config.Load(path, r.sh.env)
	if err != nil {
		return configuredAs{}, usage("%w", err)
	}
	src, _ := cfg.Source(o.src.Name)
	return configuredAs{cfg: cfg, src: src}, nil
}

// equal reports whether a flag only repeats the configuration.
func (c *configuredAs) equal(flag string, o *opened) bool {
	switch flag {
	case "delete":
		return c.src.Delete == o.src.Delete
	case "concurrency":
		return c.src.Concurrency == o.src.Concurrency
	case "idle-timeout":
		return c.cfg.Network.IdleTimeout == o.cfg.Network.IdleTimeout
	case "sets":
		return slices.Equal(c.src.Sets, o.src.Sets)
	}
	return false
}

// daemonHolds reports, as a *store.HeldError, whether a living process holds a configured Source: the claim is asked for,
// and given back at once. The Source of a folder is never a daemon's.
func (sh *shell) daemonHolds(c *cli.Context, o *opened) (held error, err error) {
	if o.alone || o.known == nil {
		return nil, nil
	}
	_, release, err := o.engine.Store.Claim(c.Context, o.known.ID, sh.holder())
	if isHeld(err) {
		return err, nil
	}
	if err != nil {
		return nil, err
	}
	return nil, release()
}
