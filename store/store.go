// Package store knows what survives a restart: the records of a Destination and the contracts by which they are kept.
// It refuses to know how they are kept (store/sqlite, later PostgreSQL), what a document looks like and what is on
// the wire; it holds no rule about which version wins, those live in sync.
//
// [Store] is the whole contract, made of smaller ones: callback needs [Subscriptions] and [Inbox],
// destination/subscribe Subscriptions only, sync nearly all. What concerns the data of a Source is written as one
// [Commit] under a [Claim] alone, which is refused once somebody else has taken over.
//
// A [Source] has [Set]s, a set has [Resource]s. A resource carries what sets want of it ([Want]), what lies in the
// mirror ([Have]) and what is still to be done ([Work]). What a set knows of the time that passed are Intervals, with
// a [Gap] for each hole. A [Delivery] waits in the inbox until its wants are committed. Times are [Micros].
//
// store/sqlite keeps all this in one file; store/storetest is the contract as tests for any other. Files of the
// mirror are kept by store/blob and never here.
package store

import (
	"context"
	"io"
)

// Store is one state database. Every method is safe for concurrent use; reads see the last commit. All writes that
// concern a Source's data go through Commit under a Claim. A method returns ErrNotFound where its comment says so,
// ErrFenced when a claim was lost, ErrReadOnly where it would write and may not, ErrCorrupt when damage shows;
// anything else is a failure of the medium, wrapped with what was tried.
type Store interface {
	Sources
	Resources
	Documents
	Ledger
	Subscriptions
	Inbox
	Requests
	Chronicle
	// Commit applies all of c in one transaction that is durable when it returns nil, or nothing of
	// it: ErrFenced if c.Claim is no longer the newest of its Source, ErrNameTaken or ErrFull as
	// these say. A cancelled ctx does not stop it, because what was done on disk must be recorded.
	Commit(ctx context.Context, c *Commit) error
	// Tidy does one bounded slice of housekeeping and reports whether more is left. It needs no
	// claim and may run at any time; call it after a run that wrote something. It drops
	//
	//   - rows of forgotten Sources,
	//   - ended gaps beyond the last 100 and runs beyond the last 200 of each set, and events
	//     beyond the last 100 of each URI,
	//   - bodies and validators of all but the 10,000 documents of a Source that were read last,
	//     and where there are twice as many the unreferenced records of the others,
	//   - requests that are a day old, marks of deliveries that can no longer be repeated, and
	//     tombstones of subscriptions after 90 days,
	//   - points older than two days (minutes), 100 days (hours) and six years (days), spans beyond
	//     the 10,000 of each set that were recorded last, and events of subscriptions beyond the
	//     last 500 of each Source.
	Tidy(ctx context.Context) (more bool, err error)
	// Check looks for damage and returns an error that wraps ErrCorrupt if it finds any. It reads the whole database.
	Check(ctx context.Context) error
	io.Closer
}
