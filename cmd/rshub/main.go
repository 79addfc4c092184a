// Command rshub is a WebSub hub. It knows its flags; everything else is in destination/peer/hub.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/internal/companion"
	"resyncd/destination/fetch"
	"resyncd/destination/peer/hub"
	"resyncd/destination/peer/hub/hubdb"
)

func main() {
	log.SetOutput(io.Discard) // net/http writes there what peers sent, unescaped
	companion.Main(run)
}

// run is the program without its process: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return companion.Run(ctx, &cli.App{
		Name:        "rshub",
		Usage:       "relay notifications of ResourceSync Sources, and any other WebSub content, to their subscribers",
		UsageText:   "rshub --listen ADDR [--url BASE] --state FILE [flags]",
		Description: description,
		Flags:       flags(),
	}, args, stdout, stderr, serve)
}

// serve runs until the context of c ends.
func serve(c *cli.Context, log *slog.Logger) (err error) {
	s, err := settingsOf(c)
	if err != nil {
		return companion.Usage(err)
	}
	state, err := hubdb.Open(c.Context, c.String("state"), log)
	if err != nil {
		if c.Context.Err() != nil {
			return nil
		}
		return err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	listener, base, err := companion.Listen(c)
	if err != nil {
		return err
	}
	client := fetch.New(fetch.Options{UserAgent: "rshub", Allow: s.allow, Log: log})
	defer client.Close()
	topics := fetch.New(fetch.Options{UserAgent: "rshub", Allow: s.allowTopics, Log: log})
	defer topics.Close()
	s.hub.Base, s.hub.Log, s.hub.State, s.hub.Client, s.hub.TopicClient = base, log, state, client, topics
	h, err := hub.New(s.hub)
	if err != nil {
		listener.Close()
		return companion.Usage(err)
	}
	fmt.Fprintln(c.App.Writer, base)
	log.Info("serving", "listen", listener.Addr().String(), "hub", base)
	return companion.Serve(c.Context, h, listener)
}
