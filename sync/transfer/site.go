// Package transfer turns wants into files: it tracks rows with work (Workset), asks the Source, makes groups of files
// durable and removes files. It knows nothing of documents, notifications and coverage.
package transfer

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/store/blob"
)

// Site is one Source and its mirror.
type Site struct {
	*Workset
	Store    store.Store
	SourceID int64
	Claim    store.Claim
	Log      *slog.Logger
	Now      func() time.Time
	// Mirror is nil only in a dry run without a mirror.
	Mirror   blob.Mirror
	Means    Means
	Observe  Observer
	Progress func(Progress)
	// Hint asks for a newer list of a set.
	Hint func(setID int64)
	// Rule is what refuses the URIs of a set.
	Rule func(set int64) func(uri string) (refused string)
	// Content is the bytes at hand of an inline resource.
	Content func(ctx context.Context, r *store.Resource) ([]byte, error)
	// Look: the disk may hold files that no row knows.
	Look bool
	// Unclean: the state says that a run is under way, so the next run looks at the disk.
	Unclean atomic.Bool
}

// Means are the limits of requests, and what becomes of deleted files.
type Means struct {
	Client      *fetch.Client
	Policy      *fetch.Policy
	Concurrency int   // requests to one host at once
	MaxResource int64 // bytes, 0 unlimited
	Delete      DeleteMode
	TrashFor    time.Duration
}

// LocalNow is our own clock.
func (s *Site) LocalNow() store.Micros { return store.MicrosOf(s.Now()) }

// Begun records that a run is under way, and must come before each change of a file: the next run looks at the disk if
// this one is cut (F1, F2).
func (s *Site) Begun(ctx context.Context, with *store.SourceChange) error {
	if s.Unclean.Load() {
		return nil
	}
	if with == nil {
		with = &store.SourceChange{}
	}
	unclean := true
	with.Unclean = &unclean
	if err := s.Store.Commit(ctx, &store.Commit{Claim: s.Claim, Source: with}); err != nil {
		return fmt.Errorf("record that a run is under way: %w", err)
	}
	s.Unclean.Store(true)
	return nil
}

// DeleteMode is what happens to files that the Source deleted.
type DeleteMode string

// The delete modes of the configuration.
const (
	DeleteTrash DeleteMode = "trash"
	DeleteKeep  DeleteMode = "keep"
	DeleteNow   DeleteMode = "now"
)

// Progress is a step of a run.
type Progress struct {
	Listed, Done, Failed, Deleted int64 // increments
	Bytes                         int64
}

// Observer gets reports on files. Its functions must be quick and safe for concurrent use.
type Observer struct {
	// Settled is called once an outcome is recorded.
	Settled func(Settled)
	// Removed counts removed files.
	Removed func(n int64)
	// Halted gets the reason when the mirror stops taking files (F6), nil when that is over.
	Halted func(err error)
}

// Settled is how the work on one resource ended.
type Settled struct {
	Result string // fetched, unchanged, gone, refused or failed
	Class  string // of a failure (store.Work.Class)
	Placed int64  // length of the placed file
	// Bytes that came, and the time until they were checked or failed; 0 without a request.
	Bytes int64
	Took  time.Duration
}
