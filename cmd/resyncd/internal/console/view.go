package console

import (
	"context"
	"errors"
	"io"
	"time"
)

// Data is what the pages show and do. Its methods are called concurrently. Errors are ErrUnknown, or for an operator;
// texts may come from strangers and are escaped here.
type Data interface {
	Overview(ctx context.Context) (Overview, error)
	Source(ctx context.Context, name string) (SourceView, error)
	// Timeline is the evidence that touches [from, until), in Source time.
	Timeline(ctx context.Context, name string, set int64, from, until time.Time) (Timeline, error)
	Find(ctx context.Context, name, text string) (Found, error)
	Resource(ctx context.Context, name, uri string) (ResourceView, error)
	// Open returns the mirrored bytes of a resource.
	Open(ctx context.Context, name, uri string) (io.ReadCloser, FileInfo, error)
	// Do carries out what an operator asked for and returns what to tell them.
	Do(ctx context.Context, a Action) (string, error)
	// Changes is told when Overview may show something new, until ctx ends.
	Changes(ctx context.Context) <-chan struct{}
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

// Overview is the page of all Sources.
type Overview struct {
	Now     time.Time
	Started time.Time
	Rows    []Row
	// Notices are of the daemon as a whole.
	Notices []Notice
}

// Notice is a line for the operator.
type Notice struct {
	Level Level
	Text  string
}

// Row is one Source.
type Row struct {
	Name, URL string
	Level     Level
	// State is it in a word or two; Why says more, and what to do.
	State, Why string
	Totals
	Fresh time.Time // since when it has been known to be in step
	// Channel is the state of its channel.
	Channel              string
	LeaseFrom, LeaseEnds time.Time
	// Changes and Latency are by the hour, the oldest first; Latency is in seconds, below 0 without pushes.
	Changes []int64
	Latency []float64
}

// Totals are how one Source stands, all its sets together, or one set.
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
	Events []ChannelEvent // of its subscriptions, newest first
	Runs   []RunView      // newest first
	// The first ones; Row counts all.
	Owed, Held, Refusals []Item
	Points               []Point // the last 30 days by the hour
}

// SetView is one set of a Source.
type SetView struct {
	ID             int64
	CapabilityList string // or feed
	Found          string
	Level          Level
	State, Why     string
	Totals
	Proven    time.Time
	Baselines int64
	Documents []DocumentView
	Channels  []ChannelView
	Gaps      []GapView // newest first
	From      time.Time
}

// DocumentView is one document of a set.
type DocumentView struct {
	URL, Kind   string
	From, Until time.Time
	Entries     int64
	Read        time.Time
}

// ChannelView is one channel at one hub.
type ChannelView struct {
	ID                                int64
	Kind, Topic, Hub, State           string
	Level                             Level
	Reason                            string
	LeaseFrom, LeaseEnds, RenewAt     time.Time
	LastDelivery                      time.Time
	Delivered, Duplicates, Misses     int64
	BadSignature, TooLarge, Malformed int64
}

// ChannelEvent is one step in the life of a subscription.
type ChannelEvent struct {
	At               time.Time
	Kind, Topic, Hub string
	From, To, Reason string
	Lease            time.Duration
	Level            Level
}

// GapView is one gap.
type GapView struct {
	From, Until, Found, Ended time.Time
	State, ClosedBy, Words    string
	Level                     Level
}

// RunView is what one pull did.
type RunView struct {
	Set                                 string
	Kind                                string
	Started                             time.Time
	Took                                time.Duration
	Fetched, Deleted, Unchanged, Failed int64
	Bytes, Requests                     int64
	Problem                             string
}

// Item is one resource that is owed or held.
type Item struct {
	URI, Reason string
	Cause       string // of Reason, in a stable word
	Attempts    int
	NextTry     time.Time
	Since       time.Time
}

// Point is what happened in one stretch of time.
type Point struct {
	At                                     time.Time
	Changes, Failed, Bytes, Pushes, Misses int64
	Latency, LatencyMost                   float64 // seconds
}

// Timeline is what covered a stretch of Source time.
type Timeline struct {
	Spans []SpanView
	Cut   bool
}

// SpanView is a piece of evidence.
type SpanView struct {
	Kind        string
	From, Until time.Time
	Seen        time.Time
	Count       int64
	Entries     int64
	Document    string
}

// Found is the answer to a search.
type Found struct {
	Items    []Hit
	Complete bool
}

// Hit is one resource that was found.
type Hit struct {
	URI, State, Type, Title string
	Length                  int64 // -1 unknown
	Changed                 time.Time
}

// ResourceView is the page of one resource.
type ResourceView struct {
	Hit
	Source, Key, SHA256, Reason string
	Fetched                     time.Time
	Mirrored                    bool
	InTrash                     bool
	History                     []HistoryLine
}

// HistoryLine is one event of a resource.
type HistoryLine struct {
	At                     time.Time
	What, Detail, Evidence string
	Version                time.Time
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
