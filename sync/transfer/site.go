// Package transfer turns wants into files: it tracks rows with work (Workset), asks the Source, makes groups of files
// durable and removes files. It knows nothing of documents, notifications and coverage.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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

// Watch has the state record a run before any file changes.
func (s *Site) Watch() blob.Mirror {
	s.Mirror = &watchedMirror{Mirror: s.Mirror, s: s}
	return s.Mirror
}

type watchedMirror struct {
	blob.Mirror
	s *Site
}

// Place implements blob.Mirror.
func (m *watchedMirror) Place(ctx context.Context, group []blob.Placement) ([]error, error) {
	if err := m.s.Begun(ctx, nil); err != nil {
		return AllOf(len(group), err), nil
	}
	return m.Mirror.Place(ctx, group)
}

// Trash implements blob.Mirror.
func (m *watchedMirror) Trash(ctx context.Context, items []blob.TrashItem) []error {
	if err := m.s.Begun(ctx, nil); err != nil {
		return AllOf(len(items), err)
	}
	return m.Mirror.Trash(ctx, items)
}

// Remove implements blob.Mirror.
func (m *watchedMirror) Remove(ctx context.Context, keys []string) []error {
	if err := m.s.Begun(ctx, nil); err != nil {
		return AllOf(len(keys), err)
	}
	return m.Mirror.Remove(ctx, keys)
}

// Restore implements blob.Mirror.
func (m *watchedMirror) Restore(ctx context.Context, id, key string) error {
	if err := m.s.Begun(ctx, nil); err != nil {
		return err
	}
	return m.Mirror.Restore(ctx, id, key)
}

// DropTrash implements blob.Mirror.
func (m *watchedMirror) DropTrash(ctx context.Context, id string) error {
	if err := m.s.Begun(ctx, nil); err != nil {
		return err
	}
	return m.Mirror.DropTrash(ctx, id)
}

// AllOf repeats an error for each item of a group.
func AllOf(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// lingerFor bounds how long an ended run may still place files.
const lingerFor = 5 * time.Second

// orderly tells whether a run was asked to end. Otherwise it must place nothing more: another process may own the
// Source by now.
func orderly(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), context.Canceled)
}

func lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if !orderly(ctx) {
			end()
			return
		}
		late := time.NewTimer(lingerFor)
		defer late.Stop()
		select {
		case <-late.C:
			end()
		case <-longer.Done():
		}
	})
	return longer, func() { stop(); end() }
}

// came drops failures from a group once ctx has ended, which caused most of them.
func came(ctx context.Context, group []*outcome) []*outcome {
	if ctx.Err() == nil {
		return group
	}
	return slices.DeleteFunc(group, func(o *outcome) bool {
		failed := o.verdict == verdictFailed
		if failed {
			o.discard()
		}
		return failed
	})
}
