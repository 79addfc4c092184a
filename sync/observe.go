package sync

import (
	"time"

	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/transfer"
)

// Observer is told of what happens, for metrics and people. Functions may be nil; they must be quick, safe for
// concurrent use, and call nothing of the Follower.
type Observer struct {
	// Mirrored: all that a notification asked for is at its final path, durably, or is owed.
	Mirrored func(Mirrored)
	// Notified counts notifications that were taken up, by how their interval lay to the position.
	Notified func(verdict coverage.Verdict, n int)
	// Missed counts changes that a pull saw first although a subscription was active.
	Missed func(setID int64, n int64)
	// Odd counts values of records that are not as their format has them.
	Odd func(setID int64, n int64)
	// Fetched counts outcomes of fetches: fetched, unchanged, gone, refused, failed.
	Fetched func(result string, n int64)
	// Settled is told of each resource that was dealt with, once that is recorded.
	Settled func(transfer.Settled)
	// Removed counts files that went from the mirror.
	Removed func(n int64)
	// Gap is told when a gap was found, changed its state or ended; one that turned out to be none ends without ClosedBy.
	Gap func(g store.Gap)
	// Pulled is told of each concluded pull.
	Pulled func(Result)
	// Discovered is told of each set that is offered, and how it was found: given, well-known, link-header, html-link, robots,
	// description, up, index.
	Discovered func(setID int64, how string)
	// Unread is told what kept a pull, or a part of one, from being read; fetch.KindOf knows it if it came from the network.
	Unread func(err error)
	// Skipped counts entries of documents and notifications that could not be read and were left out (F46).
	Skipped func(n int64)
	// Doubted is told of a document that was not trusted in full, by destination.ReaderOptions.Doubted's reasons.
	Doubted func(reason string)
	// Held is told of a sweep that waits for the operator, with the number of files.
	Held func(setID int64, n int64)
	// Halted is told when the mirror stops taking files, with the reason (F6), and with nil once it takes them again.
	Halted func(err error)
	// Rotten counts mirror files that were no longer what they were (F13); they are fetched anew.
	Rotten func(n int64)
}

// Mirrored is one notification that was carried out.
type Mirrored struct {
	SetID       int64
	From, Until store.Micros
	Changes     int           // entries that asked for something new
	Owed        int           // of those, how many failed and are tried again
	Received    time.Time     // when the hub delivered it
	Took        time.Duration // from then until everything was durable
}

func (o *Observer) notified(verdict coverage.Verdict, n int) {
	if o.Notified != nil {
		o.Notified(verdict, n)
	}
}

func (o *Observer) discovered(set int64, how string) {
	if o.Discovered != nil {
		o.Discovered(set, how)
	}
}

func (o *Observer) unread(err error) {
	if o.Unread != nil && err != nil {
		o.Unread(err)
	}
}

func (o *Observer) doubted(reason string) {
	if o.Doubted != nil {
		o.Doubted(reason)
	}
}
