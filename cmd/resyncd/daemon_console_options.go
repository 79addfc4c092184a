package main

import (
	"context"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
)

// consoleOptions are those of the handler of the console's listener.
func (d *daemon) consoleOptions() console.Options {
	d.metrics.Gauges = d.gauges
	d.metrics.Build(version, commit())
	ready := &readiness{d: d}
	c := d.config().Console
	return console.Options{
		Status: func(ctx context.Context) (any, error) { return d.status(ctx) },
		Ready:  ready.check, Metrics: d.metrics, Data: &consoleDesk{d}, Version: version, Hosts: c.Hosts, Auth: authOf(&c), Log: d.log,
	}
}

// authOf is what the console demands of who calls it, nil for nothing.
func authOf(c *config.Console) *console.Auth {
	if !c.Guarded() {
		return nil
	}
	return &console.Auth{User: c.User, Password: c.Password.Reveal(), Token: c.Token.Reveal()}
}
