// Command rssource serves a folder, or made-up resources, as a ResourceSync Source, with feeds of its changes and of edits
// of records. It knows flags, signals and exit codes; everything else is in destination/peer/source.
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
	"resyncd/destination/peer/source"
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
		Name:  "rssource",
		Usage: "serve a folder, or made-up resources, as a ResourceSync Source",
		UsageText: "rssource --listen ADDR [--url BASE] --dir FOLDER [flags]\n" +
			"rssource --listen ADDR [--url BASE] --resources N [--rate R] [--seed S] [flags]\n" +
			"rssource --listen ADDR [--url BASE] --records FILE [flags]",
		Description:     description,
		HideHelpCommand: true,
		HideVersion:     true,
		Flags:           flags(),
		Writer:          stdout,
		ErrWriter:       stderr,
		// Exit codes are ours, and so is how an error looks.
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              func(_ *cli.Context, err error, _ bool) error { return usageError{err} },
		DisableSliceFlagSeparator: true,
		Action:                    func(c *cli.Context) error { return serve(c, stdout, stderr) },
	}
	err := app.RunContext(ctx, args)
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "rssource: %v\nrssource --help lists the flags.\n", err)
		return 2
	}
	fmt.Fprintf(stderr, "rssource: %v\n", err)
	return 1
}

// serve runs until ctx ends.
func serve(c *cli.Context, stdout, stderr io.Writer) error {
	if c.NArg() > 0 {
		hint := "it takes flags only"
		if strings.HasPrefix(c.Args().First(), "-") || c.NArg() > 1 {
			hint = "it takes flags only, and reads none after the first word that is not one"
		}
		return usageError{fmt.Errorf("argument %q: %s", c.Args().First(), hint)}
	}
	options, err := optionsOf(c)
	if err != nil {
		return usageError{err}
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return usageError{fmt.Errorf("--log-level %q: want debug, info, warn or error", c.String("log-level"))}
	}
	options.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	listener, err := (&net.ListenConfig{}).Listen(c.Context, "tcp", c.String("listen"))
	if err != nil {
		return fmt.Errorf("listen for requests: %w", err)
	}
	if options.Base == "" {
		options.Base = baseOf(listener.Addr())
	}
	if options.Hub != "" {
		options.Client = fetch.New(fetch.Options{UserAgent: "rssource", Log: options.Logger})
		defer options.Client.Close()
	}
	s, err := source.New(c.Context, options)
	if err != nil {
		listener.Close()
		if c.Context.Err() != nil {
			return nil
		}
		if errors.Is(err, source.ErrRecords) {
			return usageError{fmt.Errorf("--records: %w", err)}
		}
		return err
	}
	fmt.Fprintf(stdout, "%s/\n%s\n", strings.TrimRight(options.Base, "/"), s.Description())
	options.Logger.Info("serving", "resources", s.Len(), "listen", listener.Addr().String())
	group, ctx := errgroup.WithContext(c.Context)
	group.Go(func() error { return s.Run(ctx) })
	group.Go(func() error { return s.Serve(ctx, listener) })
	return errors.Join(group.Wait(), s.Close())
}

// baseOf is the base URI where none is given. An address of all interfaces is none that a client could use.
func baseOf(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err != nil || ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
