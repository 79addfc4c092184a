// Package store knows what survives a restart: the records of a Destination and the contracts by which they are kept.
// It refuses to know how they are kept (store/sqlite, later PostgreSQL), what a document looks like and what is on
// the wire; it holds no rule about which version wins, those live in sync.
//
// [Store] is the whole contract, made of smaller ones: callback needs [Subscriptions] and [Inbox],
// destination/subscribe Subscriptions only, sync nearly all. What concerns the data of a Source is written by
// [Committer] alone, as one [Commit] under a [Claim], which is refused once somebody else has taken over.
//
// A [Source] has [Set]s, a set has [Resource]s. A resource carries what sets want of it ([Want]), what lies in the
// mirror ([Have]) and what is still to be done ([Work]). What a set knows of the time that passed are Intervals, with
// a [Gap] for each hole. A [Delivery] waits in the inbox until its wants are committed. Times are [Micros].
//
// store/sqlite keeps all this in one file; store/storetest is the contract as tests for any other. Files of the
// mirror are kept by store/blob and never here.
package store
