package console

import (
	"context"
	"errors"
	"io"
	"time"

	"resyncd/store"
	"resyncd/sync/report"
)

// Data is what the pages show and do. Its methods are called concurrently. Errors are ErrUnknown, or for an operator;
// texts may come from strangers and hold tokens; they are escaped and shortened here (P10).
type Data interface {
	Overview(ctx context.Context) (Overview, error)
	Source(ctx context.Context, name string) (SourceView, error)
	// Timeline is the evidence that touches [from, until), in Source time.
	Timeline(ctx context.Context, name string, set int64, from, until time.Time) (Timeline, error)
	Find(ctx context.Context, name, text string) (Found, error)
	Resource(ctx context.Context, name, uri string) (ResourceView, error)
	// Open returns the mirrored bytes of a resource.
	Open(ctx context.Context, name, uri string) (io.ReadCloser, FileInfo, error)
	// Do carries out what an operator asked for and returns what to tell them, soon: what takes long goes on by itself,
	// as does all when the browser leaves.
	Do(ctx context.Context, a Action) (string, error)
	// Changed is closed when Overview may show something new.
	Changed() <-chan struct{}
}

// ErrUnknown says that there is no such Source, set or resource.
var ErrUnknown = errors.New("there is none of that name")

// Level is how bad something is.
type Level uint8

// The levels: in step; late or working; owed, held or missing; not working.
const (
	Good Level = iota
	Busy
	Warn
	Bad
)

// Finding is how something stands: State says it in a word or two, Why says more, and what to do.
type Finding struct {
	Level      Level
	State, Why string
}

// Overview is the page of all Sources.
type Overview struct {
	Now     time.Time
	Started time.Time
	Rows    []Row
	// Notices are of the daemon as a whole.
	Notices []Finding
}

// Row is one Source.
type Row struct {
	Name, URL string
	Finding
	Totals
	Fresh time.Time // since when it has been known to be in step
	// Channel is the state of its channel.
	Channel              string
	LeaseFrom, LeaseEnds time.Time
	Hours                []store.Point // the last day, the oldest first
}

// Totals are how one Source stands, all its sets together.
type Totals struct {
	Resources, Bytes, Owed, Held, Refused int64
	GapsOpen, GapsLost                    int64     // lost: nobody can close them
	Position                              time.Time // the oldest of its sets, in Source time
	LastPull, NextPull                    time.Time // the first of its sets
	LastPush                              time.Time
	Paused                                bool
}

// SourceView is the page of one Source.
type SourceView struct {
	Row
	Sets   []SetView
	Events []store.SubscriptionEvent // newest first
	Runs   []RunView                 // newest first
	// The first ones; Row counts all.
	Owed, Held, Refusals []*store.Resource
	Points               []store.Point // the last 30 days by the hour
	Packages             []PackageView // in flight, or failed lately
}

// PackageView is how a package of a dump comes along.
type PackageView struct {
	URL, State    string // coming, in use or failed
	Bytes, Total  int64  // at hand; below 1 unknown
	Used, Members int64
}

// SetView is one set of a Source, its gaps newest first.
type SetView struct {
	report.SetStatus
	Finding
	Found     string // how it was discovered
	Feed      bool
	Documents []store.Document
	From      time.Time // the first instant that anything is known of
}

// RunView is what one pull did.
type RunView struct {
	store.Run
	Set string // its Capability List, or feed
}

// Timeline is what covered a stretch of Source time.
type Timeline struct {
	Spans []store.Span
	Cut   bool
}

// Found is the answer to a search.
type Found struct {
	Items    []report.Listing
	Complete bool
}

// ResourceView is the page of one resource.
type ResourceView struct {
	report.Listing
	Fetched time.Time
	InTrash bool
	History []report.HistoryLine
}

// FileInfo is what is known of mirrored bytes.
type FileInfo struct {
	Name, Type string
	Length     int64
	Modified   time.Time
}

// ActionKind is what an operator can ask for.
type ActionKind string

// The actions.
const (
	Pull    ActionKind = "pull"
	Renew   ActionKind = "renew"
	Approve ActionKind = "approve"
	Reject  ActionKind = "reject"
	Restore ActionKind = "restore"
	Pause   ActionKind = "pause"
	Resume  ActionKind = "resume"
)

// Action is something to be done.
type Action struct {
	Kind   ActionKind
	Source string
	Topic  string // Renew: "" for all
	URI    string // Restore
}
