package pull

import (
	"bytes"
	"cmp"
	"context"
	"net/url"
	"slices"

	"resyncd/destination"
	"resyncd/destination/feed"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
	"resyncd/sync/plan"
	"resyncd/sync/transfer"
	"resyncd/sync/window"
)

// Bounds of the holes of a set, and of the notification kept behind a hole (P8).
const (
	HolesMost = 2000
	keptBytes = 1 << 20
)

// PushReader turns the notifications of one set into wants and coverage. Small ones share one commit.
type PushReader struct {
	*Puller
	Now    store.Micros // Source time plus clock error: a later interval proves nothing
	Commit *store.Commit
	Kept   []keptNotice
	Heard  []store.Interval
	Notes  []*transfer.Note
	Hint   bool // a pull is to follow
	// Verdicts says how each delivery lay to the position, in order.
	Verdicts []coverage.Verdict
	Feed     *Heard // of a topic, nil otherwise
}

// Take records one delivery. Its error is one of the store.
func (v *PushReader) Take(ctx context.Context, d *store.Delivery) error {
	v.Commit.Inbox = append(v.Commit.Inbox, store.InboxChange{ID: d.ID})
	v.Verdicts = append(v.Verdicts, coverage.Unknown)
	switch {
	case v.Feed != nil:
		return v.takeFeed(ctx, d)
	case !d.Signed:
		return v.unsigned(ctx, d)
	}
	s := v.Source
	note := &transfer.Note{SetID: d.SetID, From: d.From, Until: d.Until, Received: d.Received.Time()}
	var buf []parsed.Change
	n, err := parsed.ReadNotice(d.Body, parsed.Assumed(d.Kind), func(e *rsdoc.Entry) error {
		buf = append(buf, s.Target.ChangeOf(e))
		return nil
	})
	switch {
	case err != nil:
		return err
	case !n.Usable() || n.Err != nil && n.N == 0:
		s.Log.Warn("a notification could not be used; a pull follows",
			"set", v.Set.CapabilityList, "kind", n.Head.RawKind, "err", n.Err)
		v.Hint = true
		return nil
	}
	if err := v.readInPart(ctx, d, n.N, n.Skipped, n.Err); err != nil {
		return err
	}
	v.Notes = append(v.Notes, note)
	if err := v.plan(ctx, d, n, buf, note); err != nil {
		return err
	}
	iv, ok := n.Interval()
	if !ok {
		v.Hint = true
		return nil
	}
	if iv.Until > v.Now {
		s.Log.Warn("the interval of a notification reaches into the future; cut",
			"set", v.Set.CapabilityList, "until", iv.Until.Time())
		v.Hint = true
	}
	v.Verdicts[len(v.Verdicts)-1] = coverage.Judge(iv, v.Cover.Position())
	was := v.Cover.Joint
	v.Cover.AddNotification(iv, v.Now)
	if n := len(v.Cover.Joint); n > HolesMost && n > len(was) {
		s.Log.Warn("notifications leave too many holes; the interval of one more is left to a pull",
			"set", v.Set.CapabilityList, "holes", n)
		v.Cover.Joint, v.Hint = was, true
		return nil
	}
	v.Heard = append(v.Heard, iv)
	if heard := coverage.Clip(iv, v.Now); coverage.Usable(heard) {
		v.Commit.Spans = append(v.Commit.Spans, v.span(store.SpanNotification, heard, int64(n.N), ""))
	}
	if len(d.Body) <= keptBytes { // a later list closes its hole too
		v.Kept = append(v.Kept, keptNotice{ID: d.ID, Interval: coverage.Clip(iv, v.Now), received: d.Received})
	}
	return nil
}

// readInPart has a pull follow a notification of which some entries, or all behind an error, could not be read.
func (v *PushReader) readInPart(ctx context.Context, d *store.Delivery, entries int, skipped int64, err error) error {
	if err == nil && skipped == 0 {
		return nil
	}
	v.Hint = true
	v.Observe.Skipped(skipped)
	v.Log.Warn("a notification was read in part; a pull follows",
		"set", v.Set.CapabilityList, "entries", entries, "bad_entries", skipped, "err", err)
	if err == nil {
		return nil
	}
	return v.Store.TallySubscription(ctx, d.SubscriptionID, store.Tally{RejectedMalformed: 1})
}

// refusedMost bounds the refused resources from notifications, or a hub could fill the state.
const refusedMost = 1000

// plan queues the entries of a notification. Those outside the scope are refused, within bounds (F51, P8).
func (v *PushReader) plan(ctx context.Context, d *store.Delivery, n *parsed.Notice, buf []parsed.Change,
	note *transfer.Note) error {
	placer := merge.NewPlacer(merge.PlacerHead{
		From: store.Micros(n.Head.From), Until: store.Micros(n.Head.Until), Read: v.Now,
		Document: plan.PushedDocument(d.Digest),
	})
	parsed.Place(placer, buf)
	outside, room := 0, int64(-1)
	for i := range buf {
		b := &buf[i]
		switch {
		case b.Over:
			continue
		case v.Plan.Refuses(b.URI) != "":
			if outside++; room < 0 {
				counts, err := v.Store.Withheld(ctx, v.Set.ID)
				if err != nil {
					return err
				}
				room = max(refusedMost-counts.Refused, 0)
			}
			if room--; room < 0 || b.Cand.State == store.WantAbsent {
				room = max(room, 0)
				continue
			}
		case b.Stamp.Datetime.Known() && b.Stamp.Datetime > v.Now: // an invented future must not win
			v.Hint = true
			continue
		}
		if err := v.Plan.Add(ctx, plan.Entry{URI: b.URI, Cand: b.Cand, Pushed: true, Note: note}); err != nil {
			return err
		}
	}
	if outside > 0 {
		v.Log.Warn(
			"entries of a notification lie outside the scope and are refused: see `resyncd ls --refused`",
			"set", v.Set.CapabilityList, "entries", outside)
	}
	return nil
}

// unsigned only hints. Without a Change List the Source is asked about the entries (S-87).
func (v *PushReader) unsigned(ctx context.Context, d *store.Delivery) error {
	v.Hint = true
	if v.Offer.ChangeList != nil || v.Offer.ResourceList == nil {
		return nil
	}
	floor := v.Set.Floor
	_, err := parsed.ReadNotice(d.Body, parsed.Assumed(d.Kind), func(e *rsdoc.Entry) error {
		if v.Plan.Refuses(e.Loc) != "" {
			return nil
		}
		c := merge.Candidate{State: store.WantPresent, Length: -1, LastMod: store.NoTime,
			Left:    v.Target.ContentOf(e).Left,
			Version: store.Version{From: floor, Until: max(floor, v.Now)}}
		return v.Plan.Add(ctx, plan.Entry{URI: e.Loc, Cand: c, Hinted: true})
	})
	return err
}

// Keep leaves a delivery in the inbox.
func (v *PushReader) Keep(id int64) {
	for i := range v.Commit.Inbox {
		if v.Commit.Inbox[i].ID == id {
			v.Commit.Inbox[i].Keep = true
		}
	}
}

// Only its signature vouches for a notification (P9).

// askPushed asks about pushed wants that the documents lack, so that a forged one ends with the next pull.
func (p *Puller) askPushed(ctx context.Context) error {
	proven := p.Cover.ProvenPosition()
	if !proven.Known() {
		return nil
	}
	due := proven
	if p.chain.open && p.Out.Problem == nil && p.chain.opened.Known() {
		// an open list tells of a change within its lag, or never
		due = max(due, p.chain.opened-max(lagLeast, p.lag))
	}
	pushed := p.Scan(store.ScanQuery{SetID: p.Set.ID, Filter: store.FilterPushed})
	return p.Revise(ctx, pushed, p.Plan.Name, func(v *Revision, rs []*store.Resource) error {
		return p.askPage(ctx, v, rs, proven, due)
	})
}

func agreed(w *store.Want, h *store.Have) bool {
	return w.State == store.WantPresent && w.Digests != "" && h.Version == w.Version &&
		merge.Satisfied(w, h) == merge.Yes
}

func (p *Puller) askPage(ctx context.Context, v *Revision, rs []*store.Resource, proven, late store.Micros) error {
	var fresh []int
	for _, r := range rs {
		w := r.WantFor(p.Set.ID)
		if w == nil || w.Version.Until > late || w.Version.Until > proven && agreed(w, &r.Have) {
			continue
		}
		before := slices.Clone(r.Wants)
		if w.Pushed, w.Settled = false, false; w.State == store.WantAbsent {
			w.Listed = nil // a 404 confirms the push
		}
		if w.Refused == "" {
			w.State, w.Digests, w.Length, w.LastMod = store.WantAsk, "", -1, store.NoTime
			w.Version.Document, w.Version.Ordinal = 0, 0
		}
		want := *w
		work := merge.WorkForAll(r.Wants, &r.Have, v.Now)
		if r.Key == "" && want.State != store.WantAbsent {
			fresh = append(fresh, len(v.Resources))
		}
		v.Change(store.ResourceChange{ID: r.ID, URI: r.URI, Want: &want, Work: &work})
		v.Count(before, r.Have, r) // a doubtful deletion does not count
	}
	if len(v.Resources) == 0 {
		return nil
	}
	p.Log.Info("changes that were pushed are in no document of the Source; it is asked about them",
		"set", p.Set.CapabilityList, "resources", len(v.Resources))
	return p.Plan.AssignKeys(ctx, &v.Commit, fresh, nil)
}

// Heard remembers the notifications of a topic, so that a later reading of the feed can check the hub's word (P9).
type Heard struct {
	standing
	p      *Puller
	window map[uint64]bool // keys of the feed's newest document, if deletions came
	Taken  bool
	// Signed says that one delivery had a valid signature; Document is the last signed one that is no feed.
	Signed   bool
	Document *[32]byte
}

// Hear begins to remember the deliveries of a topic.
func (v *PushReader) Hear(ctx context.Context, ds []*store.Delivery) error {
	st, err := v.standingOf(ctx, v.Set.ID)
	if err != nil {
		return err
	}
	h := &Heard{p: v.Puller, standing: st, window: map[uint64]bool{}}
	v.Feed, v.Plan.Topic.Hub = h, h
	deletes := func(d *store.Delivery) bool { return bytes.Contains(d.Body, []byte("deleted-entry")) }
	if !slices.ContainsFunc(ds, deletes) {
		return nil
	}
	var w window.Window
	_, err = v.RecallJSON(ctx, TopicWindow+v.Set.CapabilityList, &w)
	for _, e := range w.Entries {
		h.window[e.Key] = true
	}
	return err
}

// MayChange implements plan.Hub: a deletion is believed only within the newest document and the delete guard.
func (h *Heard) MayChange(uri string, item merge.Candidate, current *store.Want) bool {
	key, at := window.KeyHash(uri), item.Version.From
	if current == nil {
		if item.State == store.WantAbsent { // the feed may have it
			h.tell(key, at)
		}
		return true
	}
	if _, pushed := merge.PushedAt(current); pushed ||
		current.State == store.WantAbsent && item.State == store.WantAbsent {
		return true // the hub's own word
	}
	if item.State == store.WantAbsent {
		if !h.window[key] || merge.Hold(false, h.Ended+1, h.p.Set.Resources, h.p.Target.DeleteGuard) {
			return false
		}
		h.Ended++
	}
	h.tell(key, current.Version.From)
	return true
}

func (h *Heard) tell(key uint64, at store.Micros) {
	if h.Many = h.Many || len(h.Told) >= toldMost; !h.Many {
		h.Told = append(h.Told, told{Key: key, At: at, Push: h.p.LocalNow()})
	}
}

// Remember implements plan.Hub: it adds the memory to a commit of pushed wants.
func (h *Heard) Remember(c *store.Commit) {
	if h.Taken {
		h.Last = h.p.LocalNow()
		c.Documents = append(c.Documents, h.p.memo(pushedKey(h.p.Set.ID), h.standing))
	}
}

// takeFeed takes up a delivery of a topic: only entries of a signed feed become wants (P9, S-66).
func (v *PushReader) takeFeed(ctx context.Context, d *store.Delivery) error {
	v.Feed.Signed = v.Feed.Signed || d.Signed
	kind := feed.Sniff(d.Type, d.Body[:min(len(d.Body), sniffMost)])
	switch {
	case !d.Signed, len(bytes.TrimSpace(d.Body)) == 0: // only a hint (S-87, S-69)
		v.Hint = true
		return nil
	case kind == feed.None:
		return v.page(ctx, d)
	}
	n := &transfer.Note{SetID: d.SetID, From: store.NoTime, Until: store.NoTime, Received: d.Received.Time()}
	base, err := v.base(ctx)
	if err != nil {
		return err
	}
	from := v.ItemFrom(false)
	from.Pushed = true
	items := plan.ItemReader{Planner: v.Plan, From: from, Folder: v.Set.CapabilityList,
		Document: plan.PushedDocument(d.Digest),
		Evidence: store.EvidencePush, Kind: kind, Note: n}
	taken := 0
	head, broken, err := readFeed(d.Body, feed.Options{
		ContentType: d.Type, Base: base, Limits: feed.Limits{Entries: parsed.NoticeMost},
	}, func(e *feed.Entry) error {
		when := store.MicrosOf(e.Updated)
		if e.Edit != nil {
			when = store.MicrosOf(e.Edit.Observed)
		}
		// An invented future must not win; the feed itself may tell it.
		if when.Known() && when > from.Limit {
			v.Hint = true
			return nil
		}
		taken++
		v.Feed.Taken = true
		v.Feed.Pushed++
		return items.Take(ctx, e)
	})
	if err != nil {
		return err
	}
	v.Notes = append(v.Notes, n)
	return v.readInPart(ctx, d, taken, int64(head.Skipped), broken)
}

// readFeed passes the entries of a feed to each. The error is that of each, broken that of the document.
func readFeed(body []byte, o feed.Options, each func(*feed.Entry) error) (head *feed.Head, broken, err error) {
	head, broken = feed.Read(bytes.NewReader(body), o, func(e *feed.Entry) error {
		err = each(e)
		return err
	})
	return head, broken, err
}

const sniffMost = 4096

// page takes a pushed document that is no feed. The topic's own answer decides, if it has one (P6, S-10).
func (v *PushReader) page(ctx context.Context, d *store.Delivery) error {
	v.Hint = true
	var st destination.TopicState
	topic := v.Offer.Topic.URL
	if found, err := v.RecallJSON(ctx, TopicState+topic, &st); err != nil || !found || !st.Empty {
		v.Feed.Document = &d.Digest
		return err
	}
	from := v.ItemFrom(false)
	c := merge.Candidate{State: store.WantPresent,
		Version: store.Version{From: d.Received, Until: d.Received, Document: plan.PushedDocument(d.Digest)},
		Digests: plan.InlineDigest(d.Body), Length: int64(len(d.Body)), LastMod: d.Received, Type: d.Type}
	return v.Plan.Add(ctx, plan.Entry{URI: topic, Cand: c, Item: &plan.Item{Inline: true, Content: d.Body, From: from}})
}

// base resolves relative links like those of the feed itself, or one entry would become two.
func (v *PushReader) base(ctx context.Context) (*url.URL, error) {
	t := v.Offer.Topic
	at := t.Answer.Final
	if at == "" {
		var st destination.TopicState
		if _, err := v.RecallJSON(ctx, TopicState+t.URL, &st); err != nil {
			return nil, err
		}
		at = cmp.Or(st.Final, t.URL)
	}
	u, _ := url.Parse(at) // nil for none
	return u, nil
}
