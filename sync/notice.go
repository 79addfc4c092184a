package sync

import (
	"context"
	"errors"
	"fmt"
	"io"

	"resyncd/destination/rsdoc"
	"resyncd/store"
)

// noticeMost is how many entries of one notification are taken; a larger one is a hint to pull (F45).
const noticeMost = 50_000

// What notifications may leave behind for a set: holes, and bytes of each notification behind one (P8).
const (
	holesMost = 2000
	keptBytes = 1 << 20
)

// notice is the reading of one notification.
type notice struct {
	head rsdoc.Head
	kind rsdoc.Kind
	n    int // entries taken
	// whole: read to its end; only then its interval proves anything.
	whole   bool
	skipped int64 // entries that could not be read
	err     error // why it was not read to its end
}

// interval is what the notification says that it covers; false where it says nothing usable (F39).
func (n *notice) interval() (store.Interval, bool) {
	iv := store.Interval{From: store.Micros(n.head.From), Until: store.Micros(n.head.Until)}
	return iv, n.whole && usable(iv)
}

// usable: the root is a list of changes, never an index.
func (n *notice) usable() bool {
	return n.head.Shape == rsdoc.List && (n.kind == rsdoc.KindUnknown || tellsChanges(n.kind))
}

// readNotice reads a delivered body, entry by entry. The error is that of each; what is wrong with the body stands in the
// notice.
func readNotice(body []byte, kind rsdoc.Kind, each func(*rsdoc.Entry) error) (*notice, error) {
	n := &notice{}
	r, err := rsdoc.OpenBytes(body, rsdoc.Options{Assume: kind})
	if err != nil {
		n.err = err
		return n, nil
	}
	head, err := r.Head()
	if err != nil {
		n.err = err
		return n, nil
	}
	n.head, n.kind = *head, head.Kind
	for {
		e, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			n.skipped, _ = r.Skipped()
			n.whole = true
			return n, nil
		case err != nil:
			n.err = err
			return n, nil
		case n.n == noticeMost:
			n.err = fmt.Errorf("more than %d entries", noticeMost)
			return n, nil
		}
		n.n++
		if err := each(e); err != nil {
			return n, err
		}
	}
}

// tellsChanges: the sample of the old ResourceSync PuSH software calls its notification a Change List.
func tellsChanges(k rsdoc.Kind) bool {
	return k == rsdoc.KindChangeNotification || k == rsdoc.KindChangeList
}

func assumed(k store.ChannelKind) rsdoc.Kind {
	if k == store.ChannelFramework {
		return rsdoc.KindFrameworkNotification
	}
	return rsdoc.KindChangeNotification
}

// pushReader turns the notifications of one set into wants and coverage, all in one commit at the end if they are small.
type pushReader struct {
	p      *puller
	limit  store.Micros // nothing later counts (F40)
	commit *store.Commit
	kept   []keptNotice
	heard  []store.Interval // what was added to the coverage
	notes  []*note
	hint   bool // a pull is to follow
}

// take records one delivery. The error is one of the store.
func (v *pushReader) take(ctx context.Context, d *store.Delivery) error {
	v.commit.Inbox = append(v.commit.Inbox, store.InboxChange{ID: d.ID})
	if !d.Signed {
		return v.unsigned(ctx, d)
	}
	s := v.p.s
	note := &note{setID: d.SetID, from: d.From, until: d.Until, received: d.Received.Time()}
	var buf []change
	n, err := readNotice(d.Body, assumed(d.Kind), func(e *rsdoc.Entry) error {
		buf = append(buf, changeOf(e))
		return nil
	})
	switch {
	case err != nil:
		return err
	case !n.usable() || n.err != nil && n.n == 0:
		s.log.Warn("a notification could not be used; a pull follows", "set", v.p.set.CapabilityList, "kind", n.head.RawKind, "err", n.err)
		v.hint = true
		return nil
	case n.err != nil:
		s.log.Warn("a notification was read in part; a pull follows", "set", v.p.set.CapabilityList, "entries", n.n, "err", n.err)
		if err := s.Store.TallySubscription(ctx, d.SubscriptionID, store.Tally{RejectedMalformed: 1}); err != nil {
			return err
		}
	}
	s.observe.skipped(n.skipped)
	v.notes = append(v.notes, note)
	if err := v.plan(ctx, d, n, buf, note); err != nil {
		return err
	}
	iv, ok := n.interval()
	if v.hint = v.hint || !ok || n.skipped > 0; !ok { // what could not be read of it, a list may tell
		return nil
	}
	if iv.Until > v.limit {
		s.log.Warn("the interval of a notification reaches into the future; cut", "set", v.p.set.CapabilityList, "until", iv.Until.Time())
		v.hint = true
	}
	was := v.p.cover.Joint
	v.p.cover.AddNotification(iv, v.limit)
	if n := len(v.p.cover.Joint); n > holesMost && n > len(was) {
		s.log.Warn("notifications leave too many holes; the interval of one more is left to a pull", "set", v.p.set.CapabilityList, "holes", n)
		v.p.cover.Joint, v.hint = was, true
		return nil
	}
	v.heard = append(v.heard, iv)
	if heard := Clip(iv, v.limit); usable(heard) {
		v.commit.Spans = append(v.commit.Spans, v.p.span(store.SpanNotification, heard, int64(n.n), ""))
	}
	if len(d.Body) > keptBytes { // a list that goes on behind it closes its hole too
		return nil
	}
	v.kept = append(v.kept, keptNotice{id: d.ID, iv: Clip(iv, v.limit), received: d.Received})
	return nil
}

// refusedMost bounds what notifications may add to the refused resources of a set: a hub could fill the state with them.
const refusedMost = 1000

// plan queues the entries of a notification. What lies outside the scope is recorded as refused, within bounds (F51, P8).
func (v *pushReader) plan(ctx context.Context, d *store.Delivery, n *notice, buf []change, note *note) error {
	placer := NewPlacer(PlacerHead{
		From: store.Micros(n.head.From), Until: store.Micros(n.head.Until), Read: v.limit - skew, Document: pushedDocument(d.Digest),
	})
	stamps := make([]Stamp, len(buf))
	for i := range buf {
		stamps[i] = buf[i].stamp
	}
	outside, room := 0, int64(-1)
	for i, version := range placer.Place(stamps) {
		b := &buf[i]
		switch {
		case v.p.plan.scope(b.uri) != "":
			if outside++; room < 0 {
				counts, err := v.p.s.Store.Withheld(ctx, v.p.set.ID)
				if err != nil {
					return err
				}
				room = max(refusedMost-counts.Refused, 0)
			}
			if room--; room < 0 || b.cand.State == store.WantAbsent {
				room = max(room, 0)
				continue
			}
		case b.stamp.Datetime.Known() && b.stamp.Datetime > v.limit: // an invented future must not win
			v.hint = true
			continue
		}
		b.cand.Version = version
		if err := v.p.plan.add(ctx, entry{uri: b.uri, cand: b.cand, pushed: true, note: note}); err != nil {
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
	_, err := readNotice(d.Body, assumed(d.Kind), func(e *rsdoc.Entry) error {
		if v.p.plan.scope(e.Loc) != "" {
			return nil
		}
		c := Candidate{State: store.WantPresent, Length: -1, LastMod: store.NoTime,
			Version: store.Version{From: floor, Until: max(floor, v.limit-skew)}}
		return v.p.plan.add(ctx, entry{uri: e.Loc, cand: c, hinted: true})
	})
	return err
}

// changeOf is an entry of a document of changes, to be placed.
func changeOf(e *rsdoc.Entry) change {
	c := contentOf(e)
	c.State = store.WantPresent
	if e.Change == rsdoc.ChangeDeleted {
		c.State = store.WantAbsent
	}
	return change{uri: e.Loc, cand: c, stamp: Stamp{
		Datetime: store.Micros(e.Datetime), LastMod: store.Micros(e.LastMod), Deleted: c.State == store.WantAbsent, Ordinal: e.Ordinal,
	}}
}

// announced is an entry as rule 3 compares it (coverage.md 3).
func announced(e *rsdoc.Entry) Announced {
	return Announced{URI: e.Loc, Change: e.Change, Datetime: store.Micros(e.Datetime), Digests: digestString(e.Digests)}
}
