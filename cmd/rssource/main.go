// Command rssource serves a folder, or made-up resources, as a ResourceSync Source, with feeds of its changes and of
// edits of records. It knows its flags; everything else is in destination/peer/source.
package main

import (
	_ "embed" // the help
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/internal/companion"
	"resyncd/cmd/internal/usage"
	"resyncd/destination/fetch"
	"resyncd/destination/peer/source"
	"resyncd/destination/peer/source/faults"
)

//go:embed help.yaml
var helpPage string

// help is the page with what only the code knows.
func help() *usage.Command {
	return usage.Read(helpPage, map[string]any{
		"Faults":   strings.ReplaceAll(faults.Help, "\n", "\n  "), // as deep as the text around it
		"ListSize": source.DefaultListSize, "ChangeListSize": source.DefaultChangeListSize, "Keep": source.DefaultKeep,
		"DumpSize":  source.DefaultDumpSize,
		"ScanEvery": source.DefaultScanEvery, "NotifyMax": source.DefaultNotifyMax,
		"FeedEntries": source.DefaultFeedEntries, "RecordEntries": source.DefaultRecordEntries,
	})
}

func main() {
	log.SetOutput(io.Discard) // net/http writes there what peers sent, unescaped
	companion.Main(help(), serve)
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

// optionsOf turns flags into options and names the first flag that is wrong.
func optionsOf(c *cli.Context) (source.Options, error) {
	if c.String("listen") == "" {
		return source.Options{}, errors.New("--listen is missing: say where to answer, e.g. --listen 127.0.0.1:8888")
	}
	o := source.Options{
		Base: c.String("url"), Dir: c.String("dir"), ListSize: c.Int("list-size"), ListEvery: c.Duration("list-every"),
		ChangeListSize: c.Int("change-list-size"), ChangeListEvery: c.Duration("change-list-every"),
		KeepChangeLists: c.Int("keep-change-lists"), Archive: c.Int("archive"), Spec: c.String("spec"),
		DescribedBy: c.String("described-by"), ScanEvery: c.Duration("scan-every"),
		Records: c.String("records"), FeedEntries: c.Int("feed-entries"), DumpSize: c.Int("dump-size"),
		State: c.String("state"),
	}
	for _, name := range []string{"list-size", "change-list-size", "feed-entries", "dump-size"} {
		if c.IsSet(name) && c.Int(name) < 1 {
			return o, fmt.Errorf("--%s %d: want at least 1", name, c.Int(name))
		}
	}
	if c.Int("keep-change-lists") == 0 {
		return o, errors.New("--keep-change-lists 0: want at least 1, or -1 for all")
	}
	switch v := c.String("change-lists"); v {
	case "open":
	case "closed":
		o.ClosedLists = true
	default:
		return o, fmt.Errorf("--change-lists %q: want open or closed", v)
	}
	for name, file := range map[string]string{"records": o.Records, "state": o.State} {
		if c.IsSet(name) && file == "" {
			return o, fmt.Errorf("--%s: want a file", name)
		}
	}
	switch made := c.IsSet("resources"); {
	case made && o.Dir != "":
		return o, errors.New("--dir and --resources: want one of them")
	case made:
		o.Synthetic = &source.Synthetic{
			Resources: c.Int("resources"), Rate: c.Float64("rate"), Seed: c.Uint64("seed"), Size: int64(c.Int("size")),
		}
	case o.Dir == "" && o.Records == "":
		return o, errors.New("neither --dir nor --resources nor --records: nothing to serve")
	case c.IsSet("rate") || c.IsSet("seed") || c.IsSet("size"):
		return o, errors.New("--rate, --seed and --size go with --resources")
	}
	var err error
	if o.Hashes, err = source.ParseHashes(c.String("hash")); err != nil {
		return o, fmt.Errorf("--hash: %w", err)
	}
	if o.Faults, err = faults.Parse(c.String("fault")); err != nil {
		return o, fmt.Errorf("--fault: %w", err)
	}
	if err := errors.Join(relatedOptions(c, &o), hubOptions(c, &o)); err != nil {
		return o, err
	}
	return o, o.Check()
}

// relatedOptions turns the flags about what is offered beside the resources into options.
func relatedOptions(c *cli.Context, o *source.Options) error {
	o.Duplicate = c.String("duplicate")
	for name, on := range map[string]*bool{
		"dumps": &o.Dumps, "batch": &o.Batch, "patches": &o.Patches, "collections": &o.Collections,
	} {
		v := c.String(name)
		if v != "on" && v != "off" {
			return fmt.Errorf("--%s %q: want on or off", name, v)
		}
		*on = v == "on"
	}
	if c.IsSet("dump-size") && !o.Dumps {
		return errors.New("--dump-size: goes with --dumps on")
	}
	if o.Patches && o.Dir == "" {
		return errors.New("--patches on: goes with --dir, as it is about JSON files")
	}
	return nil
}

// hubOptions turns the flags about the hub into options.
func hubOptions(c *cli.Context, o *source.Options) error {
	o.Hub, o.Publish = c.String("hub"), source.Publish(c.String("publish"))
	o.NotifyEvery, o.NotifyMax = c.Duration("notify-every"), c.Int("notify-max")
	if o.NotifyMax < 1 {
		return fmt.Errorf("--notify-max %d: want at least 1", o.NotifyMax)
	}
	if o.Hub == "" {
		if c.IsSet("publish") && o.Publish != source.PublishOff {
			return fmt.Errorf("--publish %s: goes with --hub", o.Publish)
		}
		for _, name := range []string{"publisher-token-file", "notify-every", "notify-max"} {
			if c.IsSet(name) {
				return fmt.Errorf("--%s: goes with --hub", name)
			}
		}
		o.Publish = source.PublishOff
		return nil
	}
	var err error
	o.PublisherToken, err = companion.Token(c)
	return err
}
