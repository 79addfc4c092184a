// Package transfer turns wants into files: it tracks rows with work (Workset), asks the Source, makes groups of files
// durable and removes files. It knows nothing of documents, notifications and coverage.
//
// One Reconciler works for a Source at a time. Its conductor owns what waits, is in flight and is placed: it fills a
// queue from what planners hand over or name and from what is due in the store, gives attempts to workers, and gets
// them back with their outcomes. At the disk it takes one step at a time: a group of outcomes that is placed, or a page
// of removals.
//
// A group becomes durable with one sync and one commit (performance.md 7.5). It is closed at once when nothing is being
// fetched, so that a single change never waits.
//
// A Workset has two locks, taken in this order:
//
//  1. Rows is held from reading rows to the end of the commit that writes them back. A want that changed
//     in between would be lost.
//  2. mu guards the fields of the Workset and the Reconciler's tally, and is never held over a call of the store, the
//     disk or the network.
//
// A resource that is being worked on is in flight; if its want changes it stays owed. The store has all owed work,
// handed over or not.
package transfer
