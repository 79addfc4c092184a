package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/internal/companion"
	"resyncd/destination/peer/source"
	"resyncd/destination/peer/source/faults"
)

var description = `   rssource --listen 127.0.0.1:8888 --dir ./papers
   rssource --listen 127.0.0.1:8888 --resources 1000 --rate 5 --hub http://127.0.0.1:8889/
   rssource --listen 0.0.0.0:8888 --url https://data.example/ --dir /srv/papers ` +
	`--hub https://hub.example/ --publisher-token-file token

The first two lines on stdout are the base URI and the URI of the Source Description, written as soon as
requests are answered. SIGINT and SIGTERM end the program orderly.

A folder is looked at again and again (every second, less often if it is large): files that appear, change, are touched
or disappear go into the Change List. Every regular file is published, hidden ones too; symbolic links are not
followed. The Source's own documents are below /.resourcesync/. The history of changes lives as long as the program; a
Destination that comes back after a restart takes one baseline.

Change Lists: "open" publishes the list that is being written; when it is full it is closed, keeps its URI, and the next
one gets a new URI in the index. "closed" publishes only closed lists; a list with entries is closed when it is full or
as old as --change-list-every says, one without entries is not closed.

Feeds: /.resourcesync/feed/changes.atom is an Atom feed of the changes, newest first. An entry's id is the URI of its
resource; a deletion is an at:deleted-entry (RFC 6721). With --records FILE there is also /feeds/delta, a feed of edits
of records as the Resource Finder had it. FILE is an Atom file of the form of its sample, watched like a folder: edits
that are added to it are published, and edits that were published stay so until the program ends. A file that is not
right is refused as a whole: with exit code 2 at the start, with a warning later. What does not fit in the document of
a feed is in archives (RFC 5005); those of changes reach back as far as the Change Lists.

With --hub every change is told to a WebSub hub as soon as it can be fetched and is in the open Change List (with
"--change-lists closed" it gets into a list only later). The Capability List names the two channels, one for changes and
one for Resource Lists, Change Lists and the Capability List itself; their topics are below /.resourcesync/topic/ and
show the latest notification. Each feed is a topic too. "resourcesync" posts the notification itself, and of a feed the
new entries; "traditional" posts that the topic has changed, and the hub fetches it. Notifications have consecutive
intervals. A hub that is down gets what it has missed when it is back, up to 100 full notifications; beyond, and after a
restart of rssource, the intervals have a gap for all to see.

A proxy in front of rssource that adds a path (--url https://example.org/data) has to strip it again.

Faults, for --fault KEY=VALUE,…:
` + faults.Help + `

Exit codes: 0 ended by a signal; 1 failed (address taken, folder unreadable); 2 bad usage, ` +
	`or a file of records that is not right.`

func flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "listen", Usage: "`ADDR` to answer on, e.g. 127.0.0.1:8888; port 0 takes a free one"},
		&cli.StringFlag{Name: "url",
			Usage: "`BASE` URI as the outside sees it", DefaultText: "http:// and the address"},
		&cli.StringFlag{Name: "dir", Usage: "serve the files below `FOLDER`"},
		&cli.IntFlag{Name: "resources", Usage: "serve `N` made-up resources"},
		&cli.Float64Flag{Name: "rate", Usage: "`R` changes of made-up resources a second"},
		&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "`S` decides what the made-up resources are and become"},
		&cli.Int64Flag{Name: "size", Usage: "`BYTES` of each made-up resource", DefaultText: "a mix, 3 KiB on average"},
		&cli.IntFlag{Name: "list-size", Value: source.DefaultListSize,
			Usage: "most entries `N` of a Resource List; beyond, an index"},
		&cli.DurationFlag{Name: "list-every",
			Usage:       "least `AGE` of a Resource List before it is taken anew",
			DefaultText: "none for one list, a minute and more for an index"},
		&cli.IntFlag{Name: "change-list-size", Value: source.DefaultChangeListSize,
			Usage: "changes `N` after which a Change List is closed"},
		&cli.StringFlag{Name: "change-lists", Value: "open", Usage: "publish `open|closed` Change Lists"},
		&cli.DurationFlag{Name: "change-list-every",
			Usage: "close a Change List with entries at this `AGE`", DefaultText: "never if open, 1m if closed"},
		&cli.IntFlag{Name: "keep-change-lists", Value: source.DefaultKeep,
			Usage: "closed Change Lists `N` in the index; -1 keeps all"},
		&cli.IntFlag{Name: "archive", Usage: "Change Lists `N` that have left the index and stay in an archive"},
		&cli.StringFlag{Name: "hash", Value: "sha-256",
			Usage: "`ALGORITHMS` in lists: md5, sha-1, sha-256, sha-384, sha-512"},
		&cli.StringFlag{Name: "spec", Value: "1.1", Usage: "`1.0|1.1` is the version of the documents"},
		&cli.StringFlag{Name: "described-by", Usage: "`URI` of a page about the Source"},
		&cli.DurationFlag{Name: "scan-every", Value: source.DefaultScanEvery,
			Usage: "`PAUSE` between two looks at the folder and at the file of records"},
		&cli.StringFlag{Name: "fault", Usage: "`KEY=VALUE,…` to go wrong on purpose, see above"},
		&cli.StringFlag{Name: "log-level", Value: "info", Usage: "`LEVEL` of what is logged on stderr"},
		&cli.StringFlag{Name: "hub",
			Usage: "`URL` of a WebSub hub that is told of changes; it may be on a private address"},
		&cli.StringFlag{Name: "publish", Value: string(source.PublishResourceSync),
			Usage: "`resourcesync|traditional|off` is how the hub is told"},
		&cli.StringFlag{Name: "publisher-token-file",
			Usage: "`FILE` with the token that the hub wants from publishers"},
		&cli.DurationFlag{Name: "notify-every",
			Usage:       "`TIME` that changes come together before the hub is told",
			DefaultText: "none, but while it is being told"},
		&cli.IntFlag{Name: "notify-max", Value: source.DefaultNotifyMax, Usage: "most changes `N` in one notification"},
		&cli.StringFlag{Name: "records", Usage: "Atom `FILE` with edits of records, served as /feeds/delta"},
		&cli.IntFlag{Name: "feed-entries",
			Usage: "most entries `N` in one document of a feed", DefaultText: fmt.Sprintf("%d changes, %d edits",
				source.DefaultFeedEntries, source.DefaultRecordEntries)},
	}
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
		Records: c.String("records"), FeedEntries: c.Int("feed-entries"),
	}
	for _, name := range []string{"list-size", "change-list-size", "feed-entries"} {
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
	if c.IsSet("records") && o.Records == "" {
		return o, errors.New("--records: want a file")
	}
	switch made := c.IsSet("resources"); {
	case made && o.Dir != "":
		return o, errors.New("--dir and --resources: want one of them")
	case made:
		o.Synthetic = &source.Synthetic{
			Resources: c.Int("resources"), Rate: c.Float64("rate"), Seed: c.Uint64("seed"), Size: c.Int64("size"),
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
	if err := hubOptions(c, &o); err != nil {
		return o, err
	}
	return o, o.Check()
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
