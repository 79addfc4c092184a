package sync

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sort"
	"strings"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/store/blob"
)

// trashID names the file of a resource in the trash: when its removal was planned, and what it is. A removal that is
// repeated after a kill computes the same name.
func trashID(r *store.Resource) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d\x00%s\x00%x", r.ID, r.URI, r.Have.SHA256)
	ms := uint64(max(int64(r.Work.Due)/1000, 0)) & (1<<48 - 1)
	return fmt.Sprintf("%012x", ms) + hex.EncodeToString(h.Sum(nil))[:20]
}

// emptyTrash drops what has been in the trash for longer than configured.
func (s *session) emptyTrash(ctx context.Context) error {
	before := store.MicrosOf(s.Now().Add(-s.t.TrashFor))
	for after := ""; ; {
		ts, err := s.Store.Trash(ctx, s.src.ID, before, after, 1000)
		if err != nil || len(ts) == 0 {
			return err
		}
		c := &store.Commit{Claim: s.claim}
		for _, t := range ts {
			after = t.ID
			if err := s.t.Mirror.DropTrash(ctx, t.ID); err != nil && !errors.Is(err, blob.ErrNotFound) {
				s.log.Warn("could not drop a file from the trash; it is tried again with the next run", "key", t.Key, "err", err)
				continue
			}
			c.DropTrash = append(c.DropTrash, t.ID)
		}
		if err := s.Store.Commit(ctx, c); err != nil {
			return err
		}
	}
}

// claimTrash gives rows to files in the trash that have none: a run was cut between the move and its commit. Without a row
// nobody could restore such a file, and nothing would ever drop it (P8).
func (s *session) claimTrash(ctx context.Context) error {
	var lost []store.Trashed
	err := s.t.Mirror.ListTrash(ctx, func(i blob.TrashInfo) error {
		if i.Trashed.IsZero() {
			return nil // not of our making
		}
		near, err := s.Store.Trash(ctx, s.src.ID, store.NoTime, i.ID[:len(i.ID)-1], 16) // ids that differ in the last digit
		for _, t := range near {
			if t.ID == i.ID {
				return err
			}
		}
		if err == nil {
			lost = append(lost, store.Trashed{ID: i.ID, SourceID: s.src.ID, Length: -1, Reason: "left by a run that was cut", At: s.localNow()})
		}
		return err
	})
	for start := 0; start < len(lost) && err == nil; start += 1000 {
		err = s.Store.Commit(ctx, &store.Commit{Claim: s.claim, Trash: lost[start:min(start+1000, len(lost))]})
	}
	return err
}

// sweepOnce sweeps if every set on offer has had its baseline: before that the files of a set that could not be read would
// look like nobody's (P5).
func (s *session) sweepOnce(ctx context.Context, offer *destination.Offer) error {
	sets, err := s.Store.Sets(ctx, s.src.ID)
	if err != nil {
		return err
	}
	read := map[string]bool{}
	for i := range sets {
		read[sets[i].CapabilityList] = sets[i].Baselines > 0
	}
	feeds := false
	for _, o := range offer.Sets {
		if !read[o.ID] {
			return nil
		}
		feeds = feeds || o.Topic != nil
	}
	if s.sweep = false; feeds { // no feed lists all that it ever showed
		return nil
	}
	return s.sweepExtra(ctx)
}

// sweepExtra moves files that no resource owns to the trash, in a folder that was ours before its state was lost. The
// sweep guard counts them against what the mirror holds. Where that is nothing, a list that may be empty by mistake is all
// that speaks against them, so a later run judges again.
func (s *session) sweepExtra(ctx context.Context) error {
	sets, err := s.Store.Sets(ctx, s.src.ID)
	if err != nil {
		return err
	}
	var have int64
	for _, set := range sets {
		have += set.Resources
	}
	var extra int64
	if err := s.extras(ctx, func([]string) error { extra++; return nil }, 1); err != nil || extra == 0 {
		return err
	}
	if Hold(have == 0, extra, have+extra, s.t.DeleteGuard) {
		s.sweep = have == 0
		s.log.Warn("the folder holds many files that no list names; they are left alone: look at them with `resyncd verify`, remove them with `resyncd verify --repair`",
			"files", extra, "listed", have)
		return nil
	}
	return s.extras(ctx, func(keys []string) error { return s.discard(ctx, keys, "no list names it") }, 500)
}

// discard moves files that no resource owns to the trash.
func (s *session) discard(ctx context.Context, keys []string, reason string) error {
	items := make([]blob.TrashItem, len(keys))
	for i, k := range keys {
		items[i] = blob.TrashItem{Key: k, ID: blob.NewTrashID(s.Now())}
	}
	c := &store.Commit{Claim: s.claim}
	var failed error
	for i, err := range s.t.Mirror.Trash(ctx, items) {
		if err != nil && !missing(err) {
			failed = errors.Join(failed, err)
			continue
		}
		c.Trash = append(c.Trash, store.Trashed{ID: items[i].ID, SourceID: s.src.ID, Key: keys[i], Length: -1, Reason: reason,
			At: s.localNow()})
	}
	return errors.Join(failed, s.Store.Commit(ctx, c))
}

// extras pages over the keys of files that no resource owns.
func (s *session) extras(ctx context.Context, each func(keys []string) error, page int) error {
	return walkExtras(ctx, s.Store, s.t.Mirror, s.src.ID, func(infos []blob.Info) error {
		keys := make([]string, 0, page)
		for _, i := range infos {
			keys = append(keys, i.Key)
			if len(keys) == page {
				if err := each(keys); err != nil {
					return err
				}
				keys = keys[:0]
			}
		}
		if len(keys) > 0 {
			return each(keys)
		}
		return nil
	})
}

// walkExtras hands over, in batches, what lies in a mirror and belongs to no resource.
func walkExtras(ctx context.Context, st store.Resources, m blob.Mirror, source int64, each func([]blob.Info) error) error {
	var batch []blob.Info
	flush := func() error {
		keys := make([]string, len(batch))
		for i := range batch {
			if keys[i] = batch[i].Key; m.FoldsCase() {
				keys[i] = FoldKey(keys[i])
			}
		}
		owners, err := st.ByKeys(ctx, source, keys)
		if err != nil {
			return err
		}
		extra := batch[:0]
		for i, info := range batch {
			if owners[i] == nil || owners[i].Have.State == store.HaveNone || info.Kind != blob.KindFile {
				extra = append(extra, info)
			}
		}
		if len(extra) > 0 {
			err = each(extra)
		}
		batch = batch[:0]
		return err
	}
	err := m.Walk(ctx, func(i blob.Info) error {
		if batch = append(batch, i); len(batch) < 1000 {
			return nil
		}
		return flush()
	})
	if err != nil || len(batch) == 0 {
		return err
	}
	return flush()
}

// policyDigest changes when what is in scope may have changed.
func (t *Target) policyDigest() string {
	var parts []string
	for _, list := range [][]string{t.Scope, t.Include, t.Exclude, {t.Reach}} {
		list = append([]string(nil), list...)
		sort.Strings(list)
		parts = append(parts, strings.Join(list, "\x00"))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x01")))
	return hex.EncodeToString(sum[:8])
}
