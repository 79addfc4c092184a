package pull

import (
	"context"
	"fmt"
	"slices"

	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/plan"
	"resyncd/sync/window"
)

// end judges what the walk proves and records the set.
func (w *walk) end(ctx context.Context) error {
	p := w.p
	if w.flaws.failed != nil { // the next pull reads all again; the window still proves that this was a feed
		p.flawed = true
		p.rememberTopic()
		var kept window.Window
		if w.was != nil {
			kept = *w.was
		}
		kept.Gone, kept.Broken = w.now.Gone, true
		p.rememberJSON(TopicWindow+p.Set.CapabilityList, &kept)
		return p.commitSet(ctx)
	}
	if n := w.flaws.own + w.flaws.older; n > 0 {
		p.flawed = w.flaws.own > 0
		p.Fail(w.problem(fmt.Errorf("%d entries could not be read", n)))
	}
	if p.Plan.Topic.Crowded > 0 {
		p.flawed = true
		p.Fail(w.problem(fmt.Errorf("%d links of entries are not mirrored, those beyond %d of one entry",
			p.Plan.Topic.Crowded, plan.FollowMost)))
	}
	w.keep()
	since, err := w.holes(ctx)
	if err != nil {
		return err
	}
	if err := p.settle(ctx, w); err != nil {
		return err
	}
	return p.topicRead(ctx, w.position(), since, w.news)
}

func (w *walk) position() store.Micros {
	known := []store.Micros{w.times.newest, store.Micros(w.p.Offer.Topic.Answer.Date), w.p.SourceNow()}
	if w.was != nil && (w.unchanged || len(w.now.Entries) == 0) {
		known[0] = w.p.Cover.ProvenPosition()
	}
	return known[slices.IndexFunc(known, store.Micros.Known)]
}

// keep remembers what the feed showed. A document without news may be an old copy.
func (w *walk) keep() {
	p := w.p
	now := &w.now
	if now.Gone = 0; w.was != nil {
		if len(now.Entries) == 0 || w.unchanged || !w.reached() && p.Plan.Topic.Unheard == 0 {
			now.Entries = w.was.Entries
		}
		if now.Order = w.path.order.Found; now.Order == window.OrderUnknown ||
			w.was.Order == window.NoOrder && w.paged {
			// one reading may look ordered by chance
			now.Order = w.was.Order
		}
	} else {
		now.Order = w.path.order.Found
	}
	if w.paged && !now.Regular() { // entries dated ahead hide news on any page
		now.Order = window.NoOrder
	}
	if w.unchanged {
		now.Flaws, now.Since = w.was.Flaws, w.was.Since
	} else if now.Flaws = w.flaws.unread.Beside(&w.path.order); len(now.Flaws) > 0 {
		if now.Since = p.Cover.ProvenPosition(); w.was != nil && len(w.was.Flaws) > 0 &&
			!w.reach.Left(w.was.Flaws, now.Flaws) {
			now.Since = w.was.Since
		}
	}
	if len(now.Entries) > 0 {
		now.Trim()
		p.rememberJSON(TopicWindow+p.Set.CapabilityList, now)
	}
}

// holes records what the feed leaves unproven (T-04) and returns how far back it reached.
func (w *walk) holes(ctx context.Context) (since store.Micros, err error) {
	p := w.p
	gaps, err := p.Store.Gaps(ctx, p.Set.ID)
	if err != nil {
		return since, err
	}
	lost := func(from, until store.Micros, why string) { p.unprovable(gaps, from, until, why) }
	now := p.SourceNow()
	since = p.Cover.ProvenPosition()
	w.close(gaps)
	switch {
	case w.was == nil:
		if since = store.NoTime; len(w.now.Rest) > 0 {
			until := store.Earliest(w.times.goes, w.times.shows)
			if !until.Known() {
				until = now
			}
			lost(store.NoTime, until, "the history of the feed ends before its beginning")
		}
	case !w.unchanged && !w.complete && !w.reached() && !w.whole(since) && p.Plan.Topic.Unheard > 0:
		until := w.times.oldest
		if !until.Known() || until <= since {
			until = max(since, now)
		}
		lost(since, until, "the feed does not reach back to what was known")
		since = until
	}
	if w.was != nil && !w.unchanged && w.reach.Left(w.was.Flaws, w.now.Flaws) {
		lost(w.was.Since, now, "an entry that could not be read has left the feed")
	}
	if w.was != nil && w.path.searched == searchMost && w.reach.Vanished() && !w.path.ended {
		lost(since, max(since, now),
			"an entry has left its place, and was not found in as many older documents as are searched")
	}
	if w.flaws.lost {
		lost(store.NoTime, now, "entries that could not be read will not be met again")
	}
	if w.whole(store.NoTime) {
		return since, nil
	}
	first, last := store.NoTime, store.NoTime
	for _, t := range w.sought { // an entry that the feed would show and does not is gone, or only the hub told it
		if !t.At.Known() || !w.times.shows.Known() || t.At < w.times.shows {
			first, last = store.Earliest(first, t.At), max(last, t.At)
		}
	}
	if len(w.sought) > 0 && last != first || first.Known() {
		lost(first, last, "a hub changed entries that the feed shows no more")
	}
	return since, nil
}

// whole reports whether the history was read back to since. Pages may end before archives do (RFC 5005, 4).
func (w *walk) whole(since store.Micros) bool {
	return w.path.ended && w.path.pages > 1 && len(w.now.Rest) == 0 && w.flaws.own+w.flaws.older == 0 &&
		(w.path.archived || !since.Known() || w.times.goes.Known() && w.times.goes <= since)
}

func (w *walk) close(gaps []store.Gap) {
	for i := range gaps {
		if g := &gaps[i]; g.State == store.GapUnprovable && w.whole(store.NoTime) && w.whole(g.From) {
			w.p.closed(g, coverage.ByArchive)
			w.p.Observe.Gap(*g)
		}
	}
}

// unprovable records a hole that no document can fill, beside the known gaps. A missing beginning is recorded once.
func (p *Puller) unprovable(gaps []store.Gap, from, until store.Micros, why string) {
	now := p.LocalNow()
	gap := &store.Gap{SetID: p.Set.ID, From: from, Until: until, State: store.GapUnprovable, Found: now, Ended: now}
	for i := range gaps {
		if g := &gaps[i]; g.State == store.GapUnprovable && !g.From.Known() && !from.Known() {
			if g.Until >= until {
				return
			}
			gap.ID, gap.Found = g.ID, g.Found
		}
	}
	if gap.ID == 0 {
		p.Out.GapsFound++
	}
	p.Log.Warn("entries of a feed may be missing, and nobody can tell",
		"feed", p.Set.CapabilityList, "why", why, "from", gap.From.Time(), "until", gap.Until.Time())
	p.Observe.Gap(*gap)
	p.pending.Gaps = append(p.pending.Gaps, gap)
}

// look compares an entry with the last pull and reports whether it is new.
func (w *walk) look(h uint64, when store.Micros) (fresh bool) {
	limit := w.items.From.Limit
	if w.path.pages == 0 {
		w.now.Entries = append(w.now.Entries, window.Entry{Key: h, At: when, Ahead: when.Known() && when > limit})
		w.times.shows = store.Earliest(w.times.shows, when)
	}
	if when.Known() && when <= limit {
		w.times.newest = max(w.times.newest, when)
	}
	delete(w.sought, h)
	if w.was == nil {
		return false
	}
	if w.reach.Meet(h, when) {
		return false
	}
	w.times.oldest = store.Earliest(w.times.oldest, when)
	return true
}

// reached reports whether the walk met the last pull, so that nothing in between was missed.
func (w *walk) reached() bool { return w.reach == nil || w.reach.Reached() }

// searchMost bounds the documents searched for an entry that left its place.
const searchMost = 8

func (w *walk) enough() bool {
	if w.all || w.path.order.Found == window.NoOrder || w.was.Order == window.NoOrder || !w.reached() ||
		len(w.sought) > 0 {
		return false // unordered news may be in any document
	}
	if (w.reach.Vanished() || len(w.was.Entries) == 1) && w.path.searched < searchMost {
		w.path.searched++
		return false
	}
	// the order shows after two pages
	return w.path.next == "" || w.was.Order == window.NewestFirst || w.path.order.Found == window.NewestFirst
}
