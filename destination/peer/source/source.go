// Package source knows how to be a ResourceSync Source: it serves a folder, made-up resources or bodies given to it,
// with the documents and feeds that let a Destination keep in step, and notifies a hub of what changes. It refuses to
// know who reads or hears that: hubs, subscriptions and Destinations are elsewhere.
//
// Rules are cited as [n], the sections of the core specification 1.1, Fn of the fault model, P-nn and R-nn of
// websub.md.
package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"slices"
	"sync"
	"time"

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

	changeFeed *webFeed
	recordFeed *webFeed // nil without records
	records    *records

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
	base, err := url.Parse(o.Base)
	if err != nil {
		return nil, fmt.Errorf("base URI: %w", err)
	}
	s := &Source{options: o, clock: clock{now: o.Now}, host: base.Host}
	s.begin = s.clock.tick()
	s.journal = newJournal(o, s.begin)
	s.catalog = catalog{slots: map[string]int{}, most: maxTombstones}
	s.openChangeFeed()
	if err := s.openRecords(); err != nil {
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

// Close releases the folder. Requests that are still running may fail.
func (s *Source) Close() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if f, ok := s.backend.(*folder); ok {
		return f.root.Close()
	}
	return nil
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
	if s.journal.add(c) {
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
