package source

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	"resyncd/destination/feed"
	"resyncd/destination/rsdoc"
)

// ErrRecords is in the error of New where the file of records cannot be read.
var ErrRecords = errors.New("records not readable")

type edit struct {
	*feed.Edit
	at rsdoc.Micros
}

// records are the edits of the record feed. Published edits stay: to take one away would undo nothing where it was read
// (T-04).
type records struct {
	s     *Source
	edits []edit // in order; guarded by the Source's lock

	// scanning lets one scan work at a time, and guards what follows.
	scanning sync.Mutex
	known    map[[32]byte]int // how often each edit was published
	sig      signature        // of the file when it was last read
	bad      error
}

// openRecords makes the record feed, if there is one. Its first edits are not pushed.
func (s *Source) openRecords() error {
	if s.options.Records == "" {
		return nil
	}
	s.records = &records{s: s, known: map[[32]byte]int{}}
	s.recordFeed = &webFeed{
		s: s, kind: recordFeedKind, name: recordFeed, archive: recordFeedArchive,
		title: "Edits of records at " + s.host, faults: s.options.Faults.OfRecords(),
		size: cmp.Or(s.options.FeedEntries, DefaultRecordEntries),
		extent: func() extent {
			newest := s.begin
			if n := len(s.records.edits); n > 0 {
				newest = s.records.edits[n-1].at
			}
			return extent{total: len(s.records.edits), newest: newest, changed: newest}
		},
		span: func(from, to int) batch { return batch{edits: s.records.edits[from:to:to]} },
	}
	if err := s.records.scan(); err != nil {
		return fmt.Errorf("%w: %w", ErrRecords, err)
	}
	return nil
}

// publish puts edits into the feed, then has the hub notified (P-05).
func (r *records) publish(edits []*feed.Edit) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for _, e := range edits {
		next := edit{e, r.s.clock.tick()}
		r.edits = append(r.edits, next)
		if c := r.s.recordFeed.channel; c != nil {
			c.addEdit(next)
		}
	}
}
