package source

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/source/faults"
	"resyncd/destination/rsdoc"
)

// Defaults of Options.
const (
	DefaultListSize       = 50_000 // the limit of the Sitemap protocol [7]
	DefaultChangeListSize = 10_000
	DefaultKeep           = 100
	DefaultScanEvery      = time.Second
	DefaultClosedEvery    = time.Minute
	DefaultFeedEntries    = 50    // changes
	DefaultRecordEntries  = 1_000 // edits
	DefaultNotifyMax      = 1_000
)

// Publish is how a hub is notified.
type Publish string

// The ways. Empty is PublishResourceSync with a hub, else PublishOff.
const (
	// PublishResourceSync posts the notification itself.
	PublishResourceSync Publish = "resourcesync"
	// PublishTraditional posts that the topic has changed (P-03).
	PublishTraditional Publish = "traditional"
	// PublishOff has no channels.
	PublishOff Publish = "off"
)

// Options say what a Source serves and how. Only Base is needed: without Dir and Synthetic, Put fills the Source. A
// zero value stands for the default.
type Options struct {
	Base      string // absolute http or https URI of the root, as the outside sees it
	Dir       string // folder to serve
	Synthetic *Synthetic

	ListSize int // entries of one Resource List; a larger set gets an index
	// ListEvery is the least age of a Resource List before another one is taken. 0: none, but for an index a minute and
	// a second for each thousand resources, so that its parts stay still while they are read.
	ListEvery      time.Duration
	ChangeListSize int  // changes that close a Change List
	ClosedLists    bool // publishes a Change List only when it is closed
	// ChangeListEvery closes a Change List with entries at this age. 0: never, but DefaultClosedEvery with ClosedLists.
	ChangeListEvery time.Duration
	KeepChangeLists int // closed Change Lists in the index; negative: all
	Archive         int // Change Lists that have left the index and stay in a changelist-archive
	Hashes          []rsdoc.Algorithm
	Spec            string // "1.0" or "1.1"
	DescribedBy     string // URI of a page about the Source

	FeedEntries int           // in one document of a feed; older ones are in archives (RFC 5005)
	Records     string        // Atom file of edits (websub.md T-03), served as the record feed and watched like Dir
	ScanEvery   time.Duration // pause between two scans, at least ten times as long as a scan

	Hub            string // URL of a WebSub hub that is notified of every change
	Publish        Publish
	Client         *fetch.Client // reaches the hub
	PublisherToken string        // bearer token for the hub
	NotifyEvery    time.Duration // changes come together for so long, and while the hub takes others
	NotifyMax      int           // changes in one notification

	Faults *faults.Set
	Logger *slog.Logger

	// For tests: the clock of the documents; what gets every change once it can be fetched, and must not call back; and
	// a number in the place of the constant.
	Now         func() time.Time
	OnChange    func(Change)
	notifyQueue int
}

// Check reports what is wrong with the options, as New would. An empty Base passes.
func (o Options) Check() error {
	if o.Base == "" {
		o.Base = "http://localhost"
	}
	_, err := o.withDefaults()
	return err
}

func (o Options) withDefaults() (Options, error) {
	base, err := parseURL("base URI", o.Base)
	if err != nil {
		return o, err
	}
	o.Base = strings.TrimRight(base.String(), "/")
	o.ListSize = cmp.Or(o.ListSize, DefaultListSize)
	o.ChangeListSize = cmp.Or(o.ChangeListSize, DefaultChangeListSize)
	o.KeepChangeLists = cmp.Or(o.KeepChangeLists, DefaultKeep)
	o.ScanEvery = cmp.Or(o.ScanEvery, DefaultScanEvery)
	o.Spec = cmp.Or(o.Spec, "1.1")
	o.NotifyMax = cmp.Or(o.NotifyMax, DefaultNotifyMax)
	o.notifyQueue = cmp.Or(o.notifyQueue, notifyQueue)
	if o.ClosedLists {
		o.ChangeListEvery = cmp.Or(o.ChangeListEvery, DefaultClosedEvery)
	}
	if len(o.Hashes) == 0 {
		o.Hashes = []rsdoc.Algorithm{rsdoc.SHA256}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	made := cmp.Or(o.Synthetic, &Synthetic{})
	for _, rule := range []struct {
		broken bool
		what   string
		args   []any
	}{
		{base.RawQuery != "", "base URI %q: want one without query", []any{o.Base}},
		{o.Dir != "" && o.Synthetic != nil, "a Source serves a folder or made-up resources, not both", nil},
		{made.Resources < 0 || made.Resources > 100_000_000,
			"%d resources: want 0 to 100,000,000", []any{made.Resources}},
		{made.Rate != 0 && !(made.Rate >= 1e-6 && made.Rate <= 1e6),
			"a rate of %g changes a second: want 0, or 0.000001 to 1,000,000", []any{made.Rate}},
		{made.Size < 0, "a size of %d bytes", []any{made.Size}},
		{o.ListSize < 0, "list size %d: want a positive number", []any{o.ListSize}},
		{o.ChangeListSize < 0, "change list size %d: want a positive number", []any{o.ChangeListSize}},
		{o.Archive < 0, "archive %d: want a positive number", []any{o.Archive}},
		{o.FeedEntries < 0 || o.FeedEntries > DefaultListSize,
			"%d entries in a document of a feed: want 1 to %d", []any{o.FeedEntries, DefaultListSize}},
		{o.NotifyMax < 1 || o.NotifyMax > DefaultListSize,
			"%d changes in a notification: want 1 to %d", []any{o.NotifyMax, DefaultListSize}},
		{o.ChangeListEvery < 0 || o.ScanEvery < 0 || o.NotifyEvery < 0,
			"a negative time between Change Lists, scans or notifications", nil},
		{o.Spec != "1.0" && o.Spec != "1.1", "spec version %q: want 1.0 or 1.1", []any{o.Spec}},
	} {
		if rule.broken {
			return o, fmt.Errorf(rule.what, rule.args...)
		}
	}
	for _, a := range o.Hashes {
		if a.Size() == 0 {
			return o, fmt.Errorf("hash algorithm %d: want one that rsdoc names", a)
		}
	}
	return o, o.checkPublish()
}

// checkPublish looks at the way to the hub. The Client is for New to miss.
func (o *Options) checkPublish() error {
	if o.Hub == "" {
		o.Publish = cmp.Or(o.Publish, PublishOff)
	}
	o.Publish = cmp.Or(o.Publish, PublishResourceSync)
	switch {
	case o.Publish == PublishOff:
		return nil
	case o.Publish != PublishResourceSync && o.Publish != PublishTraditional:
		return fmt.Errorf("publish %q: want resourcesync, traditional or off", o.Publish)
	case o.Hub == "":
		return fmt.Errorf("publish %s: there is no hub to tell", o.Publish)
	}
	_, err := parseURL("hub", o.Hub)
	return err
}

func parseURL(what, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("%s %q: want http://HOST[:PORT][/PATH] or https, without user or fragment",
			what, u.Redacted())
	}
	return u, nil
}
