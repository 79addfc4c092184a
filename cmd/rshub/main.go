// Command rshub is a WebSub hub. It knows flags, signals and exit codes; everything else is in destination/peer/hub.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/hub"
	"resyncd/destination/peer/hub/hubdb"
)

func main() {
	log.SetOutput(io.Discard) // net/http writes there what peers sent, unasked and unescaped; our own log is another
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// usageError is an error in what was asked for: exit code 2, all others 1.
type usageError struct{ error }

// Unwrap gives the cause.
func (e usageError) Unwrap() error { return e.error }

// run is the program without its process: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app := &cli.App{
		Name:            "rshub",
		Usage:           "relay notifications of ResourceSync Sources, and any other WebSub content, to their subscribers",
		UsageText:       "rshub --listen ADDR [--url BASE] --state FILE [flags]",
		Description:     description,
		HideHelpCommand: true,
		HideVersion:     true,
		Flags:           flags(),
		Writer:          stdout,
		ErrWriter:       stderr,
		// Exit codes are ours, and so is how an error looks.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return usageError{err} },
		Action:         func(c *cli.Context) error { return serve(c, stdout, stderr) },
	}
	err := app.RunContext(ctx, args)
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "rshub: %v\nrshub --help lists the flags.\n", err)
		return 2
	}
	fmt.Fprintf(stderr, "rshub: %v\n", err)
	return 1
}

// serve runs until ctx ends.
func serve(c *cli.Context, stdout, stderr io.Writer) (err error) {
	if c.NArg() > 0 {
		hint := "it takes flags only"
		if strings.HasPrefix(c.Args().First(), "-") || c.NArg() > 1 {
			hint = "it takes flags only, and reads none after the first word that is not one"
		}
		return usageError{fmt.Errorf("argument %q: %s", c.Args().First(), hint)}
	}
	s, err := settingsOf(c)
	if err != nil {
		return usageError{err}
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: s.level}))
	s.hub.Log = log
	state, err := hubdb.Open(c.Context, s.state, log)
	if err != nil {
		if c.Context.Err() != nil {
			return nil
		}
		return err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	listener, err := (&net.ListenConfig{}).Listen(c.Context, "tcp", s.listen)
	if err != nil {
		return fmt.Errorf("listen for requests: %w", err)
	}
	if s.hub.Base == "" {
		s.hub.Base = baseOf(listener.Addr())
	}
	client := fetch.New(fetch.Options{UserAgent: "rshub", Allow: s.allow, Log: log})
	defer client.Close()
	topics := fetch.New(fetch.Options{UserAgent: "rshub", Allow: s.allowTopics, Log: log})
	defer topics.Close()
	s.hub.State, s.hub.Client, s.hub.TopicClient = state, client, topics
	h, err := hub.New(s.hub)
	if err != nil {
		listener.Close()
		return usageError{err}
	}
	fmt.Fprintln(stdout, s.hub.Base)
	log.Info("serving", "listen", listener.Addr().String(), "hub", s.hub.Base)
	group, ctx := errgroup.WithContext(c.Context)
	group.Go(func() error { return h.Run(ctx) })
	group.Go(func() error { return h.Serve(ctx, listener) })
	return group.Wait()
}

// baseOf is the URL where none is given. An address of all interfaces is none that a client could use.
func baseOf(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err != nil || ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + "/"
}
