package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/daemon"
)

func (sh *shell) serveCommand() *cli.Command {
	return sh.command("serve [flags]", 0, 0, &cli.Command{
		Name: "serve", Usage: "the daemon: follow all configured Sources, by push and by pull",
		Description: about("Subscribes where Sources have hubs, renews leases, takes notifications at "+
			"callback.base_url, pulls by schedule and keeps the mirrors in step. Addresses and Sources are named on "+
			"stdout, everything else is logged on stderr.\n\n"+
			"SIGTERM and SIGINT end it orderly with 0, within ten seconds. SIGHUP reads the configuration again: "+
			"Sources are added, changed and removed without touching the others; an invalid file changes nothing. "+
			"While it runs, `sync`, `approve`, `restore`, `subscription` and `source` have it do the work.", codesServe,
			"resyncd serve", "resyncd serve --config /etc/resyncd/resyncd.yaml --log-format json"),
		Action: sh.serve,
	})
}

func (sh *shell) serve(c *cli.Context) error {
	cfg, err := sh.config(c)
	if err != nil {
		return err
	}
	if len(cfg.Sources) == 0 {
		sh.Say("warning: no Source is configured; add one and send SIGHUP")
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	return daemon.New(daemon.Options{
		Config: cfg, Log: sh.log, Now: sh.Now, Build: daemon.Build{Version: version, Commit: commit()}, Out: sh.Out,
		Reread: func() (*config.Config, error) { return sh.config(c) },
	}).Run(c.Context, hup)
}
