package source

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"resyncd/destination/feed"
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

// notifyQueue is how many full notifications may wait while the hub is slow or down; beyond, the oldest are dropped and
// subscribers see a gap.
const notifyQueue = 100

// Publish is how a hub is told.
type Publish string

// The ways. The empty one is PublishResourceSync where there is a hub and PublishOff where there is none.
const (
	// PublishResourceSync posts the notification itself to the hub, and of a feed what is new.
	PublishResourceSync Publish = "resourcesync"
	// PublishTraditional posts that the topic has changed, and the hub fetches it (P-03).
	PublishTraditional Publish = "traditional"
	// PublishOff has neither channels nor their topics, and its feeds name no hub.
	PublishOff Publish = "off"
)

// Options say what a Source serves and how it publishes it. Only Base is needed: without Dir and Synthetic the Source
// is empty and lives in memory, filled with Put.
type Options struct {
	// Base is the absolute http or https URI of the root, as the outside sees it. A proxy that adds a path to it has to
	// strip that path again: the Handler's own root is always "/".
	Base string
	// Dir is a folder to serve. It is only ever read.
	Dir string
	// Synthetic asks for made-up resources.
	Synthetic *Synthetic

	// ListSize is the most entries that one Resource List holds; a larger set gets an index. 0: DefaultListSize.
	ListSize int
	// ListEvery: a new Resource List is taken when one is asked for, something has changed since, and the last one is at
	// least this old. 0 means always for a set that fits in one list, and for larger ones one minute plus a second for
	// each thousand resources, so that the parts stay still while they are read. Negative: always.
	ListEvery time.Duration
	// ChangeListSize is the number of changes after which a Change List is closed. 0: DefaultChangeListSize.
	ChangeListSize int
	// ClosedLists publishes a Change List only when it is closed.
	ClosedLists bool
	// ChangeListEvery closes a Change List that is not empty when it is this old. 0: never by age, but
	// DefaultClosedEvery with ClosedLists.
	ChangeListEvery time.Duration
	// KeepChangeLists is how many closed Change Lists the index names. 0: DefaultKeep. Negative: all.
	KeepChangeLists int
	// Archive is how many Change Lists that have left the index are kept in a changelist-archive. 0: none.
	Archive int
	// Hashes are the algorithms of the digests in lists. Empty: SHA-256.
	Hashes []rsdoc.Algorithm
	// Spec is the version of the documents, "1.0" or "1.1". Empty: 1.1.
	Spec string
	// DescribedBy is the URI of a page about the Source, linked from the Source Description and Capability List.
	DescribedBy string

	// FeedEntries is the most entries in one document of a feed; what is older is in archives (RFC 5005).
	// 0: DefaultFeedEntries changes, DefaultRecordEntries edits of records.
	FeedEntries int
	// Records is an Atom file of edits of records (websub.md T-03), served as the record feed. It is only ever read, and
	// watched like Dir: what is new in it is published.
	Records string
	// RecordEdits begins a record feed without a file, to which AddEdits adds; not nil, but perhaps empty.
	RecordEdits []*feed.Edit

	// ScanEvery is the pause between two looks at Dir and at Records; it grows to ten times what a look takes.
	// 0: DefaultScanEvery.
	ScanEvery time.Duration
	// Faults are the deliberate ones, see faults.Parse. Nil: none.
	Faults *faults.Set
	// Now is the clock of the documents. Nil: time.Now. It may stand still or go back: instants are made to rise.
	Now func() time.Time
	// OnChange hears of every change, in order and after it can be fetched. It must return quickly and must not call back.
	OnChange func(Change)
	// Hub is the URL of a WebSub hub that is told of every change: through two channels, which the Capability List then
	// names, and of what is new in each feed. Empty: nobody is told.
	Hub string
	// Publish is how the hub is told. Empty: PublishResourceSync with a Hub.
	Publish Publish
	// Client reaches the hub; New wants one where there is a hub. The hub itself may be on a private address.
	Client *fetch.Client
	// PublisherToken is sent to the hub as a bearer token. Empty: none.
	PublisherToken string
	// NotifyEvery is how long changes come together before they are told. 0: the first is told at once, and what happens
	// while the hub is being told is in the next notification. The feed of changes is told of some milliseconds later.
	NotifyEvery time.Duration
	// NotifyMax is the most changes in one notification. 0: DefaultNotifyMax.
	NotifyMax int
	// Logger gets what an operator may care about. Nil: nowhere.
	Logger *slog.Logger

	// For tests: another notifyQueue, and what hears of every notification, channels at the same time.
	notifyQueue int
	onNotify    func(notification)
}

// Check tells what is wrong with the options, as New would. An empty Base passes: it may follow once the address is known.
func (o Options) Check() error {
	if o.Base == "" {
		o.Base = "http://localhost"
	}
	_, err := o.withDefaults()
	return err
}

// withDefaults returns the options with every default filled in, or what is wrong with them.
func (o Options) withDefaults() (Options, error) {
	base, err := parseURL("base URI", o.Base)
	if err != nil {
		return o, err
	}
	if base.RawQuery != "" {
		return o, fmt.Errorf("base URI %q: want one without query", o.Base)
	}
	o.Base = strings.TrimRight(base.String(), "/")
	if o.Dir != "" && o.Synthetic != nil {
		return o, errors.New("a Source serves a folder or made-up resources, not both")
	}
	if o.Synthetic != nil {
		if err := o.Synthetic.check(); err != nil {
			return o, err
		}
	}
	if o.Records != "" && o.RecordEdits != nil {
		return o, errors.New("a record feed is of a file or begins with given edits, not both")
	}
	setDefault(&o.ListSize, DefaultListSize)
	setDefault(&o.ChangeListSize, DefaultChangeListSize)
	setDefault(&o.KeepChangeLists, DefaultKeep)
	setDefault(&o.ScanEvery, DefaultScanEvery)
	setDefault(&o.Spec, "1.1")
	setDefault(&o.NotifyMax, DefaultNotifyMax)
	setDefault(&o.notifyQueue, notifyQueue)
	if o.ClosedLists {
		setDefault(&o.ChangeListEvery, DefaultClosedEvery)
	}
	if len(o.Hashes) == 0 {
		o.Hashes = []rsdoc.Algorithm{rsdoc.SHA256}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for name, n := range map[string]int{
		"list size": o.ListSize, "change list size": o.ChangeListSize, "archive": o.Archive,
	} {
		if n < 0 {
			return o, fmt.Errorf("%s %d: want a positive number", name, n)
		}
	}
	if o.FeedEntries < 0 || o.FeedEntries > DefaultListSize {
		return o, fmt.Errorf("%d entries in a document of a feed: want 1 to %d", o.FeedEntries, DefaultListSize)
	}
	if o.NotifyMax < 1 || o.NotifyMax > DefaultListSize {
		return o, fmt.Errorf("%d changes in a notification: want 1 to %d", o.NotifyMax, DefaultListSize)
	}
	if o.ChangeListEvery < 0 || o.ScanEvery < 0 || o.NotifyEvery < 0 {
		return o, errors.New("a negative time between Change Lists, scans or notifications")
	}
	if o.Spec != "1.0" && o.Spec != "1.1" {
		return o, fmt.Errorf("spec version %q: want 1.0 or 1.1", o.Spec)
	}
	for _, a := range o.Hashes {
		if a.Size() == 0 {
			return o, fmt.Errorf("hash algorithm %d: want one that rsdoc names", a)
		}
	}
	return o, o.checkPublish()
}

// checkPublish tells what is wrong with the way to the hub. The Client is for New to miss: like Base it may come later.
func (o *Options) checkPublish() error {
	if o.Hub == "" {
		setDefault(&o.Publish, PublishOff)
	}
	setDefault(&o.Publish, PublishResourceSync)
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

// parseURL reads an absolute http or https URL of what.
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

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
