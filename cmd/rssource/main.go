// Command rssource serves a folder, or made-up resources, as a ResourceSync Source, with feeds of its changes and of
// edits of records. It knows its flags; everything else is in destination/peer/source.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/internal/companion"
	"resyncd/destination/fetch"
	"resyncd/destination/peer/source"
)

func main() {
	log.SetOutput(io.Discard) // net/http writes there what peers sent, unescaped
	companion.Main(run)
}

// run is the program without its process: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return companion.Run(ctx, &cli.App{
		Name:  "rssource",
		Usage: "serve a folder, or made-up resources, as a ResourceSync Source",
		UsageText: "rssource --listen ADDR [--url BASE] --dir FOLDER [flags]\n" +
			"rssource --listen ADDR [--url BASE] --resources N [--rate R] [--seed S] [flags]\n" +
			"rssource --listen ADDR [--url BASE] --records FILE [flags]",
		Description: description,
		Flags:       flags(),
	}, args, stdout, stderr, serve)
}

// serve runs until the context of c ends.
func serve(c *cli.Context, log *slog.Logger) error {
	options, err := optionsOf(c)
	if err != nil {
		return companion.Usage(err)
	}
	options.Logger = log
	listener, base, err := companion.Listen(c)
	if err != nil {
		return err
	}
	options.Base = base
	if options.Hub != "" {
		options.Client = fetch.New(fetch.Options{UserAgent: "rssource", Log: log})
		defer options.Client.Close()
	}
	s, err := source.New(c.Context, options)
	if err != nil {
		listener.Close()
		if c.Context.Err() != nil {
			return nil
		}
		if errors.Is(err, source.ErrRecords) {
			return companion.Usage(fmt.Errorf("--records: %w", err))
		}
		return err
	}
	fmt.Fprintf(c.App.Writer, "%s/\n%s\n", strings.TrimRight(base, "/"), s.Description())
	log.Info("serving", "resources", s.Len(), "listen", listener.Addr().String())
	return errors.Join(companion.Serve(c.Context, s, listener), s.Close())
}
