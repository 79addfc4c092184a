package transfer

import (
	"context"
	"fmt"
	"hash"
	"log/slog"
	"sync/atomic"
	"time"

	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/verify"
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
	// Hint asks for a newer list of a set; may be nil.
	Hint func(setID int64)
	// Rule refuses URIs of a set, nil for a set that is not pulled.
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

func (s *Site) hint(setID int64) {
	if s.Hint != nil {
		s.Hint(setID)
	}
}

func (s *Site) made(p Progress) {
	if s.Progress != nil {
		s.Progress(p)
	}
}

// HashFile returns SHA-256 and length of a mirror file, and the sum of other if given.
func (s *Site) HashFile(
	ctx context.Context, key string, other hash.Hash,
) (sum [32]byte, n int64, also []byte, err error) {
	return verify.Hash(ctx, s.Mirror, key, other)
}

// Begun records before the first change of a file that a run is under way: the next run looks at the disk if this one
// is cut (F1, F2). A run without changes is spared that.
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
