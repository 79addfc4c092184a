package daemon

import (
	"context"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/store"
	"resyncd/sync/report"
)

// readOne reads one Source; old is what was read of it before, nil for nothing.
func (b *board) readOne(ctx context.Context, known *store.Source, old *entry) (*entry, error) {
	e := &entry{known: *known, feeds: map[int64]bool{}}
	var err error
	if e.status, err = report.StatusOf(ctx, b.d.st, known); err != nil {
		return nil, err
	}
	src, _ := b.d.sources.config().Source(known.Name)
	owed := int64(0)
	for i := range e.status.Sets {
		set := &e.status.Sets[i]
		owed += set.Owed
		if old != nil && old.feeds[set.ID] {
			e.feeds[set.ID] = true
		} else if e.feeds[set.ID], err = mirror.IsFeed(ctx, b.d.st, src.Kind, known.ID,
			set.CapabilityList); err != nil {
			return nil, err
		}
	}
	if owed > 0 {
		e.owed, err = b.triedInVain(ctx, known.ID)
	}
	return e, err
}

// owedSample is how many owed resources are looked at for one that tells why.
const owedSample = 50

// triedInVain is an owed resource that says why resources are owed: the one that was tried most often, nil if none was
// tried yet.
func (b *board) triedInVain(ctx context.Context, source int64) (worst *console.Item, err error) {
	rs, err := b.d.st.Scan(ctx, store.ScanQuery{SourceID: source, Filter: store.FilterOwed, Limit: owedSample})
	for _, r := range rs {
		if r.Work.Attempts > 0 && (worst == nil || r.Work.Attempts > worst.Attempts) {
			it := itemOf(r)
			worst = &it
		}
	}
	return worst, err
}

// tell says to all who listen that something may be another than before.
func (b *board) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.listeners {
		select {
		case c <- struct{}{}:
		default: // it has yet to look at the last one
		}
	}
}

// listen is console.Data's Changes.
func (b *board) listen(ctx context.Context) <-chan struct{} {
	c := make(chan struct{}, 1)
	b.mu.Lock()
	b.listeners[c] = true
	b.mu.Unlock()
	context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.listeners, c)
	})
	return c
}
