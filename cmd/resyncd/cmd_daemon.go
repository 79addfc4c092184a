package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/daemon"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/destination/fetch"
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

// healthWithin is how long the daemon may take to say how it is.
const healthWithin = 5 * time.Second

func (sh *shell) healthcheckCommand() *cli.Command {
	return sh.command("healthcheck [--alive]", 0, 0, &cli.Command{
		Name: "healthcheck", Usage: "ask the daemon whether it is ready",
		Description: about("For health checks of containers, which hold no other program: asks /readyz at "+
			"console.listen. Ready means that the state is open, hubs are answered and the disks of state and mirrors "+
			"take writes. --alive asks /healthz: does the process answer at all?", codesHere,
			"resyncd healthcheck", "resyncd healthcheck --alive --config /etc/resyncd/resyncd.yaml"),
		Flags:  []cli.Flag{boolFlag("alive", "ask only whether the process answers")},
		Action: sh.healthcheck,
	})
}

func (sh *shell) healthcheck(c *cli.Context) error {
	cfg, err := sh.config(c)
	if err != nil {
		return err
	}
	if cfg.Console.Listen == "" {
		return exit.Usage("console.listen is switched off, so there is nothing to ask; give it an address such as " +
			"127.0.0.1:8091")
	}
	path, what := "/readyz", "ready"
	if c.Bool("alive") {
		path, what = "/healthz", "alive"
	}
	host := dialable(cfg.Console.Listen)
	ctx, cancel := context.WithTimeout(c.Context, healthWithin)
	defer cancel()
	client := fetch.New(fetch.Options{UserAgent: "resyncd/" + version, Retries: -1})
	defer client.Close()
	answer, err := client.Get(ctx, fetch.Request{URL: "http://" + host + path,
		Policy: &fetch.Policy{Trusted: []string{host}}, MaxBytes: 4 << 10})
	if err != nil {
		return fmt.Errorf("the daemon at %s is not %s: %w; look at its log", host, what, err)
	}
	_, werr := fmt.Fprintln(sh.Out, what)
	return errors.Join(answer.Body.Close(), werr)
}

// dialable is the address at which a listener of this machine is reached: one on all interfaces is so on loopback.
func dialable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "", err == nil && ip.Unmap().IsUnspecified() && ip.Unmap().Is4():
		host = "127.0.0.1"
	case err == nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}
