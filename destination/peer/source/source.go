// Package source knows how to be a ResourceSync Source: it serves a folder, made-up resources or bodies given to it,
// with the documents and feeds that let a Destination keep in step, and notifies a hub of what changes. It refuses to
// know who reads or hears that: hubs, subscriptions and Destinations are elsewhere.
//
// Rules are cited as [n], the sections of the core specification 1.1, Fn of the fault model, P-nn and R-nn of
// websub.md.
package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/source/faults"
	"resyncd/destination/rsdoc"
)

// Source is one living Source, for many goroutines.
type Source struct {
	options Options
	host    string       // of the base URI
	begin   rsdoc.Micros // in every ETag of a document: a restart never repeats one
	backend backend

	// mu guards what is published. A change comes with its bytes or after them.
	mu      sync.RWMutex
	clock   clock
	catalog catalog
	journal *journal
	lists   [2]*snapshot // the current Resource List, and the one before, which may still be read
	dumps   *dumps
	state   *stateFile

	changeFeed *webFeed
	recordFeed *webFeed // nil without records
	records    *records
	patches    *patches // nil where none are made

	changes, framework *channel // nil without a hub
}

// backend changes the resources by itself; nil where the program does.
type backend interface {
	run(ctx context.Context)
}

type body struct {
	io.ReadSeeker
	close    func() error // nil: nothing to close
	modified time.Time
	// exact is false where the bytes are newer than what is published, so that they have no ETag.
	exact bool
}

// Change is what OnChange hears. SHA256 and Length are zero for a deletion.
type Change struct {
	URI      string
	Change   rsdoc.Change
	Datetime rsdoc.Micros
	SHA256   [32]byte
	Length   int64
}

// New makes a Source. It first reads the whole folder, or makes all resources.
func New(ctx context.Context, options Options) (*Source, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	base, _ := url.Parse(o.Base) // it was parsed before
	s := &Source{options: o, clock: clock{now: o.Now}, host: base.Host}
	s.catalog = catalog{slots: map[string]int{}, most: maxTombstones}
	if o.Synthetic != nil {
		s.catalog.most = 0
	}
	if o.Dumps {
		if err := o.outside("packages (TMPDIR says where they are)", os.TempDir()); err != nil {
			return nil, err
		}
	}
	if err := s.openState(); err != nil {
		return nil, err
	}
	s.begin = s.clock.tick()
	if s.journal == nil {
		s.journal = newJournal(&s.options, s.begin)
	}
	if o.Patches {
		s.patches = &patches{versions: newShelf(), documents: newShelf()}
	}
	if err := s.openFeeds(); err != nil {
		return nil, err
	}
	if err := s.openChannels(); err != nil {
		return nil, err
	}
	switch {
	case o.Dir != "":
		err = s.openFolder(ctx)
	case o.Synthetic != nil:
		err = s.makeResources(ctx)
	}
	if err != nil {
		return nil, err
	}
	if o.Dumps {
		s.dumps = newDumps(s)
	}
	if err := s.state.rewrite(s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if o.Batch {
		o.Logger.Info("batches are answered", "url", s.at(batchEndpoint))
	}
	return s, nil
}

// Run publishes changes, closes Change Lists by age and notifies the hub, until ctx ends.
func (s *Source) Run(ctx context.Context) error {
	var work sync.WaitGroup
	if age := s.options.ChangeListEvery; age > 0 {
		work.Go(func() { repeat(ctx, age, s.rotateByAge) })
	}
	for _, c := range s.channels() {
		work.Go(func() { c.run(ctx) })
	}
	if s.records != nil {
		work.Go(func() { s.watch(ctx, "records", s.records.settled) })
	}
	if s.backend != nil {
		work.Go(func() { s.backend.run(ctx) })
	}
	<-ctx.Done()
	work.Wait()
	return nil
}

// Close releases the folder and the state, and removes the packages. Requests that are still running may fail.
func (s *Source) Close() error {
	err := s.dumps.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	err = errors.Join(err, s.state.close())
	if f, ok := s.backend.(*folder); ok {
		err = errors.Join(err, f.root.Close())
	}
	return err
}

// rotateByAge closes the open Change List at its age, unless it has no entries.
func (s *Source) rotateByAge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.journal.open(); l.last > l.first {
		s.rotate()
	}
}

// repeat does something again and again until ctx ends.
func repeat(ctx context.Context, every time.Duration, what func()) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			what()
		}
	}
}

// Rotate closes the open Change List now, even an empty one.
func (s *Source) Rotate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rotate()
}

// watch scans every ScanEvery. A failure that lasts is logged once; everything stays published as it was (F12).
func (s *Source) watch(ctx context.Context, what string, scan func() error) {
	every := s.options.ScanEvery
	timer := time.NewTimer(every)
	defer timer.Stop()
	for last := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		begin, now := time.Now(), ""
		if err := scan(); err != nil && ctx.Err() == nil {
			now = err.Error()
		}
		if now != last && now != "" {
			s.options.Logger.Warn(what+" not readable, changes wait", "err", now)
		}
		last = now
		timer.Reset(max(every, 10*time.Since(begin)))
	}
}

// URI is where the resource with this unescaped name is served.
func (s *Source) URI(name string) string { return s.at(escapeName(name)) }

func (s *Source) at(path string) string { return s.options.Base + "/" + path }

// Description is the URI of the Source Description.
func (s *Source) Description() string { return s.at(wellKnown) }

// Now is the latest instant: all that is published lies at or before it.
func (s *Source) Now() rsdoc.Micros {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.clock.last
}

// Len is the number of resources.
func (s *Source) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.catalog.live
}

// Resources goes over URI and SHA-256 of every resource at one instant.
func (s *Source) Resources() iter.Seq2[string, [32]byte] {
	return func(yield func(string, [32]byte) bool) {
		s.mu.Lock()
		all := slices.Clone(s.catalog.all)
		s.mu.Unlock()
		for _, r := range alive(all) {
			if !yield(s.URI(r.name), r.sum) {
				return
			}
		}
	}
}

// publish records a new state of a resource. The caller holds the lock and has put the bytes in place.
func (s *Source) publish(next *record) {
	before := s.catalog.find(next.name)
	told := *next
	told.content = nil // the history must not keep bodies that the program replaced
	next.patch = nil
	if p := told.patch; p != nil && (before == nil || !before.live || before.sum != p.from) {
		told.patch = nil // another version was published meanwhile
	}
	c := event{at: s.clock.tick(), record: &told}
	switch {
	case !next.live:
		c.kind = rsdoc.ChangeDeleted
	case before != nil && before.live:
		c.kind = rsdoc.ChangeUpdated
	default:
		c.kind = rsdoc.ChangeCreated
	}
	s.catalog.set(next)
	full := s.journal.add(c)
	if s.state != nil {
		s.state.append(s, lineOf(c))
	}
	if full {
		s.rotate()
	}
	if s.options.OnChange != nil {
		uri := s.URI(next.name)
		s.options.OnChange(Change{URI: uri, Change: c.kind, Datetime: c.at, SHA256: next.sum, Length: next.length})
	}
}

var (
	errGone   = errors.New("deleted")
	errAbsent = errors.New("not published")
)

func (s *Source) find(name string) (*record, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	rec := s.catalog.find(name)
	switch {
	case rec == nil:
		return nil, errAbsent
	case !rec.live:
		return nil, errGone
	}
	return rec, nil
}

// clock gives out instants. No two are equal and none goes back, so that an interval never has a hole or an overlap
// (F43, F74).
type clock struct {
	now  func() time.Time
	last rsdoc.Micros
}

func (c *clock) tick() rsdoc.Micros {
	c.last = max(rsdoc.Micros(c.now().UnixMicro()), c.last+1)
	return c.last
}

// Defaults of Options.
const (
	DefaultListSize       = 50_000 // the limit of the Sitemap protocol [7]
	DefaultChangeListSize = 10_000
	DefaultDumpSize       = 1_000
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
	State     string // file that keeps the history over a restart, with Dir or Synthetic

	ListSize int // entries of one Resource List; a larger set gets an index
	// ListEvery is the least age of a Resource List before another one is taken. 0: none, but for an index a minute and
	// a second for each thousand resources, so that its parts stay still while they are read.
	ListEvery      time.Duration
	ChangeListSize int  // changes that close a Change List
	ClosedLists    bool // publishes a Change List only when it is closed
	// ChangeListEvery closes a Change List with entries at this age. 0: never, but DefaultClosedEvery with ClosedLists.
	ChangeListEvery time.Duration
	Dumps           bool // Resource Dump and Change Dump
	DumpSize        int  // resources or changes in a package
	KeepChangeLists int  // closed Change Lists in the index; negative: all
	Archive         int  // Change Lists that have left the index and stay in a changelist-archive
	Hashes          []rsdoc.Algorithm
	Spec            string // "1.0" or "1.1"
	DescribedBy     string // URI of a page about the Source

	Batch       bool   // answers POSTs of lists of URIs with a package
	Duplicate   string // base URI where another server has the same resources
	Patches     bool   // offers JSON Patches for the changes of JSON files
	Collections bool   // each top folder is a collection

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
	o.Base = cmp.Or(o.Base, "http://localhost")
	_, err := o.withDefaults()
	return err
}

func (o Options) withDefaults() (Options, error) {
	var err error
	if o.Base, err = parseBase("base URI", o.Base); err != nil {
		return o, err
	}
	if o.Duplicate != "" {
		if o.Duplicate, err = parseBase("duplicate", o.Duplicate); err != nil {
			return o, err
		}
	}
	o.ListSize = cmp.Or(o.ListSize, DefaultListSize)
	o.ChangeListSize = cmp.Or(o.ChangeListSize, DefaultChangeListSize)
	o.DumpSize = cmp.Or(o.DumpSize, DefaultDumpSize)
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
		{o.Dir != "" && o.Synthetic != nil, "a Source serves a folder or made-up resources, not both", nil},
		{o.State != "" && o.Dir == "" && o.Synthetic == nil, "a state goes with a folder or made-up resources", nil},
		{o.Patches && o.Synthetic != nil, "patches are made of JSON, made-up resources are text", nil},
		{made.Resources < 0 || made.Resources > 100_000_000,
			"%d resources: want 0 to 100,000,000", []any{made.Resources}},
		{made.Rate != 0 && !(made.Rate >= 1e-6 && made.Rate <= 1e6),
			"a rate of %g changes a second: want 0, or 0.000001 to 1,000,000", []any{made.Rate}},
		{made.Size < 0, "a size of %d bytes", []any{made.Size}},
		{o.ListSize < 0, "list size %d: want a positive number", []any{o.ListSize}},
		{o.ChangeListSize < 0, "change list size %d: want a positive number", []any{o.ChangeListSize}},
		{o.DumpSize < 1 || o.DumpSize > DefaultListSize,
			"%d resources in a package: want 1 to %d", []any{o.DumpSize, DefaultListSize}},
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

func parseBase(what, text string) (string, error) {
	u, err := parseURL(what, text)
	if err != nil {
		return "", err
	}
	if u.RawQuery != "" || u.ForceQuery {
		return "", fmt.Errorf("%s %q: want one without query", what, text)
	}
	return strings.TrimRight(u.String(), "/"), nil
}
