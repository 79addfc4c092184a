package sync

import (
	"context"
	"slices"
	"strings"

	"resyncd/destination/feed"
	"resyncd/store"
)

// recordType is the type of a record's file.
const recordType = "application/json"

// foldRecords turns the edits of a batch into wants: a record is what all its edits make of it, so their order, repetition
// and batching do not matter (T-03). New edits are recorded in the same commit.
func (p *planner) foldRecords(ctx context.Context, rows map[string]*row, c *store.Commit) error {
	var subjects []string
	seen := map[string]bool{}
	for i := range p.batch {
		if uri := p.batch[i].uri; len(rows[uri].edits) > 0 && !seen[uri] {
			seen[uri] = true
			subjects = append(subjects, uri)
		}
	}
	if len(subjects) == 0 {
		return nil
	}
	known, err := p.s.Store.EditsOf(ctx, p.s.src.ID, subjects)
	if err != nil {
		return err
	}
	for i, subject := range subjects {
		if err := p.foldRecord(subject, rows[subject], known[i], c); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) foldRecord(subject string, r *row, known []store.Edit, c *store.Commit) error {
	has, pushed := make(map[[32]byte]bool, len(known)), make(map[[32]byte]bool)
	for i := range known {
		has[known[i].Digest], pushed[known[i].Digest] = true, known[i].Evidence == store.EvidencePush
	}
	for _, digest := range r.fresh {
		if !has[digest] || pushed[digest] { // another may have been missed before it
			p.unheard++
		}
	}
	var fresh []store.Edit
	for _, e := range r.edits {
		if !has[e.Digest] {
			has[e.Digest] = true
			fresh = append(fresh, e)
		}
	}
	if len(fresh) == 0 {
		r.same = true
		if r.had || r.changed {
			return nil
		}
	}
	record, content := p.s.foldEdits(subject, append(slices.Clip(known), fresh...))
	p.countOdd(subject, fresh)
	c.Edits = append(c.Edits, fresh...)
	observed := store.NoTime
	if !record.Observed.IsZero() {
		observed = store.MicrosOf(record.Observed)
	}
	w := store.Want{
		SetID: p.set.ID, State: store.WantPresent, Version: store.Version{From: observed, Until: observed, Document: p.document},
		Digests: inlineDigest(content), Length: int64(len(content)), LastMod: observed, Type: recordType,
		Inline: true, Refused: p.filter(subject),
	}
	if p.news != nil && len(fresh) > 0 {
		p.news(w.Version)
	}
	r.want, r.changed, r.content = w, true, nil // its bytes are made anew from the edits whenever they are needed
	return nil
}

// countOdd counts what is not as the format of records has it; it is kept as it is.
func (p *planner) countOdd(subject string, fresh []store.Edit) {
	for i := range fresh {
		if e, err := feed.UnmarshalEdit(fresh[i].Body); err == nil && len(e.Odd) > 0 {
			p.odd += int64(len(e.Odd))
			p.s.log.Warn("an edit is not as its format has it; it is kept as it is", "subject", subject, "odd", strings.Join(e.Odd, "; "))
		}
	}
}

// foldEdits makes a record of its edits, and its file. One that the state does not hold well any more is left out: it must
// stop neither the others nor the feed (P11).
func (s *session) foldEdits(subject string, edits []store.Edit) (*feed.Record, []byte) {
	parsed := make([]*feed.Edit, 0, len(edits))
	for i := range edits {
		e, err := feed.UnmarshalEdit(edits[i].Body)
		if err != nil {
			s.log.Error("an edit of a record cannot be read back from the state; it is left out", "subject", subject, "err", err)
			continue
		}
		parsed = append(parsed, e)
	}
	record := feed.Merge(subject, parsed)
	return record, record.JSON()
}

// contentOfInline are the bytes of a resource that came with its document, or were made of its edits; store.ErrNotFound if
// they were lost before they reached the mirror.
func (s *session) contentOfInline(ctx context.Context, r *store.Resource) ([]byte, error) {
	content, err := s.Store.Content(ctx, r.ID)
	if err == nil {
		return content, nil
	}
	edits, listErr := s.Store.Edits(ctx, s.src.ID, r.URI)
	if listErr != nil || len(edits) == 0 {
		return nil, err
	}
	_, content = s.foldEdits(r.URI, edits)
	return content, nil
}
