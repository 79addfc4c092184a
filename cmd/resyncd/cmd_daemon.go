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

	"resyncd/cmd/resyncd/internal/daemon"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/destination/fetch"
)

func (sh *shell) serve() error {
	cfg, err := sh.config()
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
		Reread: sh.config,
	}).Run(sh.ctx, hup)
}

// healthWithin is how long the daemon may take to say how it is.
const healthWithin = 5 * time.Second

func (sh *shell) healthcheck() error {
	cfg, err := sh.config()
	if err != nil {
		return err
	}
	if cfg.Console.Listen == "" {
		return exit.Usage("console.listen is switched off, so there is nothing to ask; give it an address such as " +
			"127.0.0.1:8091")
	}
	path, what := "/readyz", "ready"
	if sh.c.Bool("alive") {
		path, what = "/healthz", "alive"
	}
	host := dialable(cfg.Console.Listen)
	ctx, cancel := context.WithTimeout(sh.ctx, healthWithin)
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
