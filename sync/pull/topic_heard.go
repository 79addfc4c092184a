package pull

import (
	"bytes"
	"cmp"
	"context"
	"net/url"
	"slices"

	"resyncd/destination"
	"resyncd/destination/feed"
	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
	"resyncd/sync/plan"
	"resyncd/sync/transfer"
	"resyncd/sync/window"
)

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
func (h *Heard) Remember(c *store.Commit) error {
	if !h.Taken {
		return nil
	}
	h.Last = h.p.LocalNow()
	d, err := h.p.memo(h.p.Set, pushedKey(h.p.Set.ID), h.standing)
	c.Documents = append(c.Documents, d)
	return err
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
		when := plan.MicrosOf(e.Updated)
		if e.Edit != nil {
			when = plan.MicrosOf(e.Edit.Observed)
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
	u, err := url.Parse(at)
	if err != nil {
		return nil, nil
	}
	return u, nil
}
