package pull

import (
	"bytes"
	"context"

	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/window"
)

// Heard remembers the notifications of a topic, so that a later reading of the feed can check the hub's word (P9).
type Heard struct {
	standing
	p      *Puller
	window map[uint64]bool // keys of the feed's newest document, if deletions came
	Taken  bool
}

// NewHeard returns the memory for deliveries of a topic.
func (p *Puller) NewHeard(ctx context.Context, ds []*store.Delivery) (*Heard, error) {
	st, err := p.standingOf(ctx, p.Set.ID)
	if err != nil {
		return nil, err
	}
	h := &Heard{p: p, standing: st, window: map[uint64]bool{}}
	for _, d := range ds {
		if bytes.Contains(d.Body, []byte("deleted-entry")) {
			var w window.Window
			if _, err := p.RecallJSON(ctx, TopicWindow+p.Set.CapabilityList, &w); err != nil {
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

// MayChange implements plan.Hub: it decides whether a hub's word may change what the feed told. A deletion is believed
// only within the newest document, which the next reading checks, and only within the delete guard; otherwise the feed
// is asked.
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
