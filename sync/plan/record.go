package plan

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"resyncd/destination/feed"
	"resyncd/store"
)

// RecordType is the media type of a record's file.
const RecordType = "application/json"

// foldRecords makes records of all their edits, so that order, repetition and batching do not matter (T-03). New edits
// are part of the same commit.
func (p *Planner) foldRecords(ctx context.Context, rows map[string]*row, c *store.Commit) error {
	var subjects []string
	seen := map[string]bool{}
	for i := range p.Batch {
		if uri := p.Batch[i].URI; len(rows[uri].edits) > 0 && !seen[uri] {
			seen[uri] = true
			subjects = append(subjects, uri)
		}
	}
	if len(subjects) == 0 {
		return nil
	}
	known, err := p.o.Site.Store.EditsOf(ctx, p.o.Site.SourceID, subjects)
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

func (p *Planner) foldRecord(subject string, r *row, known []store.Edit, c *store.Commit) error {
	has, pushed := make(map[[32]byte]bool, len(known)), make(map[[32]byte]bool)
	for i := range known {
		has[known[i].Digest], pushed[known[i].Digest] = true, known[i].Evidence == store.EvidencePush
	}
	for _, digest := range r.fresh {
		if !has[digest] || pushed[digest] { // an edit before it may be missing
			p.Topic.Unheard++
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
	record, content := FoldEdits(p.o.Site.Log, subject, append(slices.Clip(known), fresh...))
	p.countOdd(subject, fresh)
	c.Edits = append(c.Edits, fresh...)
	observed := store.NoTime
	if !record.Observed.IsZero() {
		observed = store.MicrosOf(record.Observed)
	}
	w := store.Want{
		SetID: p.o.Set.ID, State: store.WantPresent,
		Version: store.Version{From: observed, Until: observed, Document: p.Topic.Document},
		Digests: InlineDigest(content), Length: int64(len(content)), LastMod: observed, Type: RecordType,
		Inline: true, Refused: p.o.Filtered(subject),
	}
	if p.News != nil && len(fresh) > 0 {
		p.News(w.Version)
	}
	r.want, r.changed, r.content = w, true, nil // made of the edits when needed
	return nil
}

func (p *Planner) countOdd(subject string, fresh []store.Edit) {
	for i := range fresh {
		if e, err := feed.UnmarshalEdit(fresh[i].Body); err == nil && len(e.Odd) > 0 {
			p.Topic.Odd += int64(len(e.Odd))
			p.o.Site.Log.Warn("an edit is not as its format has it; it is kept as it is",
				"subject", subject, "odd", strings.Join(e.Odd, "; "))
		}
	}
}

// FoldEdits makes a record and its file. An unreadable edit is left out, so that it stops neither the others nor the
// feed (P11).
func FoldEdits(log *slog.Logger, subject string, edits []store.Edit) (*feed.Record, []byte) {
	parsed := make([]*feed.Edit, 0, len(edits))
	for i := range edits {
		e, err := feed.UnmarshalEdit(edits[i].Body)
		if err != nil {
			log.Error("an edit of a record cannot be read back from the state; it is left out",
				"subject", subject, "err", err)
			continue
		}
		parsed = append(parsed, e)
	}
	record := feed.Merge(subject, parsed)
	return record, record.JSON()
}
