// Package companion knows the frame of a companion program: signals, exit codes, the flags that both have. It refuses
// to know what the program serves.
package companion

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"resyncd/cmd/internal/usage"
)

// Main is the process: it exits with the code of Run, which a signal ends.
func Main(page *usage.Command, serve func(c *cli.Context, log *slog.Logger) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := Run(ctx, page, os.Args, os.Stdout, os.Stderr, serve)
	stop()
	os.Exit(code)
}

// usageError is an error in what was asked for: exit code 2, not 1.
type usageError struct{ error }

// Usage marks an error in what was asked for.
func Usage(err error) error { return usageError{err} }

// Run runs a program without its process and returns the exit code. What serve logs goes to stderr.
func Run(
	ctx context.Context, page *usage.Command, args []string, stdout, stderr io.Writer,
	serve func(c *cli.Context, log *slog.Logger) error,
) int {
	app := page.App(usage.Program{
		Wrong: func(_ *cli.Context, err error, _ bool) error { return usageError{err} },
		Do: func(c *cli.Context, _ *usage.Command) error {
			if c.NArg() == 0 {
				level := c.String("log-level")
				var least slog.Level
				if err := least.UnmarshalText([]byte(level)); err != nil {
					return usageError{fmt.Errorf("--log-level %q: want debug, info, warn or error", level)}
				}
				return serve(c, slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: least})))
			}
			hint := "it takes flags only"
			if strings.HasPrefix(c.Args().First(), "-") || c.NArg() > 1 {
				hint = "it takes flags only, and reads none after the first word that is not one"
			}
			return usageError{fmt.Errorf("argument %q: %s", c.Args().First(), hint)}
		},
	})
	app.Description = "   " + strings.Join(page.Examples, "\n   ") + "\n\n" + page.About
	app.Writer, app.ErrWriter = stdout, stderr
	err := app.RunContext(ctx, args)
	var misused usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &misused):
		fmt.Fprintf(stderr, "%s: %v\n%[1]s --help lists the flags.\n", page.Name, err)
		return 2
	}
	fmt.Fprintf(stderr, "%s: %v\n", page.Name, err)
	return 1
}

// Token reads --publisher-token-file, "" for none.
func Token(c *cli.Context) (string, error) {
	const flag = "publisher-token-file"
	file := c.String(flag)
	if file == "" {
		return "", nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("--%s %s: want one token of visible ASCII characters", flag, file)
	}
	return token, nil
}

// Listen listens at --listen. base is --url, or follows from the address.
func Listen(c *cli.Context) (listener net.Listener, base string, err error) {
	listener, err = (&net.ListenConfig{}).Listen(c.Context, "tcp", c.String("listen"))
	if err != nil {
		return nil, "", fmt.Errorf("listen for requests: %w", err)
	}
	if base = c.String("url"); base == "" {
		base = baseOf(listener.Addr())
	}
	return listener, base, nil
}

// baseOf is the URL of an address that clients can use.
func baseOf(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err != nil || ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + "/"
}

// Server is what a companion does.
type Server interface {
	Run(ctx context.Context) error
	Serve(ctx context.Context, listener net.Listener) error
}

// Serve has a Server work and answer.
func Serve(ctx context.Context, server Server, listener net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Run(ctx) })
	group.Go(func() error { return server.Serve(ctx, listener) })
	return group.Wait()
}
