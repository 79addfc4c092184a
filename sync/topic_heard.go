package sync

import (
	"bytes"
	"context"

	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/window"
)

// heard is what is remembered of a topic's notifications, with the wants that they make: what a hub alone has told is held against the
// feed as soon as that had the time to show it (P9).
type heard struct {
	standing
	window map[uint64]bool // keys of the feed's newest document, where entries are said to have ended
	taken  bool            // entries were taken up
}

// newHeard begins with deliveries of a topic.
func (p *puller) newHeard(ctx context.Context, ds []*store.Delivery) (*heard, error) {
	st, err := p.s.standingOf(ctx, p.set.ID)
	if err != nil {
		return nil, err
	}
	h := &heard{standing: st, window: map[uint64]bool{}}
	for _, d := range ds {
		if bytes.Contains(d.Body, []byte("deleted-entry")) {
			var w window.Window
			if _, err := p.s.recallJSON(ctx, topicWindow+p.set.CapabilityList, &w); err != nil {
				return nil, err
			}
			for _, e := range w.Entries {
				h.window[e.Key] = true
			}
			break
		}
	}
	return h, nil
}

// mayChange decides whether a hub's word is enough to change what the feed has told, which is remembered then. An end is believed of
// what the feed's newest document had, for the next reading shows whether that is true, and of no more than the guard of sweeps lets
// go; of anything else the feed is asked.
func (h *heard) mayChange(p *planner, e *entry, current *store.Want) bool {
	key, at := window.KeyHash(e.uri), e.cand.Version.From
	if current == nil {
		if e.cand.State == store.WantAbsent { // the feed may have it
			h.tell(p, key, at)
		}
		return true
	}
	if _, pushed := merge.PushedAt(current); pushed || current.State == store.WantAbsent && e.cand.State == store.WantAbsent {
		return true // the hub's own word
	}
	if e.cand.State == store.WantAbsent {
		if !h.window[key] || merge.Hold(false, h.Ended+1, p.set.Resources, p.s.t.DeleteGuard) {
			return false
		}
		h.Ended++
	}
	h.tell(p, key, current.Version.From)
	return true
}

func (h *heard) tell(p *planner, key uint64, at store.Micros) {
	if h.Many = h.Many || len(h.Told) >= toldMost; !h.Many {
		h.Told = append(h.Told, told{Key: key, At: at, Push: p.s.site.LocalNow()})
	}
}

// remember has a commit with wants of notifications tell of them.
func (h *heard) remember(p *planner, c *store.Commit) error {
	if h == nil || !h.taken {
		return nil
	}
	h.Last = p.s.site.LocalNow()
	d, err := p.s.memo(p.set, pushedKey(p.set.ID), h.standing)
	c.Documents = append(c.Documents, d)
	return err
}
