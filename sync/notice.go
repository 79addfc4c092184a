package sync

import (
	"context"

	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
	"resyncd/sync/transfer"
)

// What notifications may leave behind for a set: holes, and bytes of each notification behind one (P8).
const (
	holesMost = 2000
	keptBytes = 1 << 20
)

// pushReader turns the notifications of one set into wants and coverage, all in one commit at the end if they are small.
type pushReader struct {
	p      *puller
	now    store.Micros // by the Source's clock, and what that may be wrong by: an interval proves nothing beyond it
	commit *store.Commit
	kept   []keptNotice
	heard  []store.Interval // what was added to the coverage
	notes  []*transfer.Note
	hint   bool // a pull is to follow
	// verdicts says how each delivery lay to the position, in their order.
	verdicts []coverage.Verdict
}

// take records one delivery. The error is one of the store.
func (v *pushReader) take(ctx context.Context, d *store.Delivery) error {
	v.commit.Inbox = append(v.commit.Inbox, store.InboxChange{ID: d.ID})
	v.verdicts = append(v.verdicts, coverage.Unknown)
	if !d.Signed {
		return v.unsigned(ctx, d)
	}
	s := v.p.s
	note := &transfer.Note{SetID: d.SetID, From: d.From, Until: d.Until, Received: d.Received.Time()}
	var buf []parsed.Change
	n, err := parsed.ReadNotice(d.Body, parsed.Assumed(d.Kind), func(e *rsdoc.Entry) error {
		buf = append(buf, parsed.ChangeOf(e))
		return nil
	})
	switch {
	case err != nil:
		return err
	case !n.Usable() || n.Err != nil && n.N == 0:
		s.log.Warn("a notification could not be used; a pull follows", "set", v.p.set.CapabilityList, "kind", n.Head.RawKind, "err", n.Err)
		v.hint = true
		return nil
	case n.Err != nil:
		s.log.Warn("a notification was read in part; a pull follows", "set", v.p.set.CapabilityList, "entries", n.N, "err", n.Err)
		if err := s.Store.TallySubscription(ctx, d.SubscriptionID, store.Tally{RejectedMalformed: 1}); err != nil {
			return err
		}
	}
	s.observe.skipped(n.Skipped)
	v.notes = append(v.notes, note)
	if err := v.plan(ctx, d, n, buf, note); err != nil {
		return err
	}
	iv, ok := n.Interval()
	if v.hint = v.hint || !ok || n.Skipped > 0; !ok { // what could not be read of it, a list may tell
		return nil
	}
	if iv.Until > v.now {
		s.log.Warn("the interval of a notification reaches into the future; cut", "set", v.p.set.CapabilityList, "until", iv.Until.Time())
		v.hint = true
	}
	v.verdicts[len(v.verdicts)-1] = coverage.Judge(iv, v.p.cover.Position())
	was := v.p.cover.Joint
	v.p.cover.AddNotification(iv, v.now)
	if n := len(v.p.cover.Joint); n > holesMost && n > len(was) {
		s.log.Warn("notifications leave too many holes; the interval of one more is left to a pull", "set", v.p.set.CapabilityList, "holes", n)
		v.p.cover.Joint, v.hint = was, true
		return nil
	}
	v.heard = append(v.heard, iv)
	if heard := coverage.Clip(iv, v.now); coverage.Usable(heard) {
		v.commit.Spans = append(v.commit.Spans, v.p.span(store.SpanNotification, heard, int64(n.N), ""))
	}
	if len(d.Body) > keptBytes { // a list that goes on behind it closes its hole too
		return nil
	}
	v.kept = append(v.kept, keptNotice{id: d.ID, iv: coverage.Clip(iv, v.now), received: d.Received})
	return nil
}

// refusedMost bounds what notifications may add to the refused resources of a set: a hub could fill the state with them.
const refusedMost = 1000

// plan queues the entries of a notification. What lies outside the scope is recorded as refused, within bounds (F51, P8).
func (v *pushReader) plan(ctx context.Context, d *store.Delivery, n *parsed.Notice, buf []parsed.Change, note *transfer.Note) error {
	placer := merge.NewPlacer(merge.PlacerHead{
		From: store.Micros(n.Head.From), Until: store.Micros(n.Head.Until), Read: v.now, Document: pushedDocument(d.Digest),
	})
	stamps := make([]merge.Stamp, len(buf))
	for i := range buf {
		stamps[i] = buf[i].Stamp
	}
	outside, room := 0, int64(-1)
	for i, version := range placer.Place(stamps) {
		b := &buf[i]
		switch {
		case v.p.plan.scope(b.URI) != "":
			if outside++; room < 0 {
				counts, err := v.p.s.Store.Withheld(ctx, v.p.set.ID)
				if err != nil {
					return err
				}
				room = max(refusedMost-counts.Refused, 0)
			}
			if room--; room < 0 || b.Cand.State == store.WantAbsent {
				room = max(room, 0)
				continue
			}
		case b.Stamp.Datetime.Known() && b.Stamp.Datetime > v.now: // an invented future must not win
			v.hint = true
			continue
		}
		b.Cand.Version = version
		if err := v.p.plan.add(ctx, entry{uri: b.URI, cand: b.Cand, pushed: true, note: note}); err != nil {
			return err
		}
	}
	if outside > 0 {
		v.p.s.log.Warn("entries of a notification lie outside the scope and are refused: see `resyncd ls --refused`", "set", v.p.set.CapabilityList, "entries", outside)
	}
	return nil
}

// unsigned takes a hint: it proves nothing and asks for nothing but a pull; where there is no Change List to pull, the
// Source is asked for what it names (S-87).
func (v *pushReader) unsigned(ctx context.Context, d *store.Delivery) error {
	v.hint = true
	if v.p.offer.ChangeList != nil || v.p.offer.ResourceList == nil {
		return nil
	}
	floor := v.p.set.Floor
	_, err := parsed.ReadNotice(d.Body, parsed.Assumed(d.Kind), func(e *rsdoc.Entry) error {
		if v.p.plan.scope(e.Loc) != "" {
			return nil
		}
		c := merge.Candidate{State: store.WantPresent, Length: -1, LastMod: store.NoTime,
			Version: store.Version{From: floor, Until: max(floor, v.now)}}
		return v.p.plan.add(ctx, entry{uri: e.Loc, cand: c, hinted: true})
	})
	return err
}
