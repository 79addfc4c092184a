package daemon

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/store"
	"resyncd/sync/report"
)

const (
	boardEvery = time.Second      // the least time between two refreshes
	boardAll   = 30 * time.Second // after which everything is read again: other processes change things too
	// lately is how long after it a rejected notification, or a failure of the state database, is told of first.
	lately  = 10 * time.Minute
	stateOn = time.Minute
)

// board is how all Sources stand, kept in memory: the page of all of them must not cost thousands of queries. What
// changed is named to it, and read again soon.
type board struct {
	d    *Daemon
	kick chan struct{}

	reading sync.Mutex // held while the store is read for it

	mu      sync.Mutex
	dirty   map[string]bool // what is to be read, nil for everything
	entries map[string]*entry
	news    chan struct{} // closed and replaced when something may be another than before
	state   error         // the state database's last failure
	stateAt time.Time
}

// entry is one Source as it was last read; it is replaced, never changed.
type entry struct {
	known  store.Source
	status report.SourceStatus
	feeds  map[int64]bool
	owed   *store.Resource // one that was tried in vain, where that is shown
}

func newBoard(d *Daemon) *board {
	return &board{d: d, kick: make(chan struct{}, 1), entries: map[string]*entry{}, news: make(chan struct{})}
}

// changed names a Source of which something may have changed. It never blocks.
func (b *board) changed(name string) {
	b.mu.Lock()
	if b.dirty != nil {
		b.dirty[name] = true
	}
	b.mu.Unlock()
	b.wake()
}

func (b *board) changedAll() {
	b.mu.Lock()
	b.dirty = nil
	b.mu.Unlock()
	b.wake()
}

func (b *board) wake() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

func (b *board) stateFailed(err error) {
	b.mu.Lock()
	b.state, b.stateAt = err, b.d.o.Now()
	b.mu.Unlock()
	b.wake()
}

// stateTrouble is a failure of the state database that is news, nil for none.
func (b *board) stateTrouble(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != nil && now.Sub(b.stateAt).Abs() < stateOn {
		return b.state
	}
	return nil
}

// keep reads what changed, at most once in boardEvery, and tells who listens, until ctx ends.
func (b *board) keep(ctx context.Context) error {
	every := time.NewTicker(boardAll)
	defer every.Stop()
	failing := false
	for {
		b.d.stateTroublesOnce(ctx, b.refresh(ctx), &failing, "the overview cannot be kept up to date")
		b.tell()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(boardEvery):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-b.kick:
		case <-every.C:
			b.changedAll()
		}
	}
}

// refresh reads what is named as changed. What cannot be read stays named.
func (b *board) refresh(ctx context.Context) error {
	b.reading.Lock()
	defer b.reading.Unlock()
	b.mu.Lock()
	dirty := b.dirty
	b.dirty = map[string]bool{}
	b.mu.Unlock()
	if dirty != nil && len(dirty) == 0 {
		return nil
	}
	err := b.read(ctx, dirty)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if dirty == nil || b.dirty == nil {
			b.dirty = nil
		} else {
			maps.Copy(b.dirty, dirty)
		}
	}
	return err
}

func (b *board) read(ctx context.Context, dirty map[string]bool) error {
	known, err := b.d.st.Sources(ctx)
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(known))
	for i := range known {
		name := known[i].Name
		there[name] = true
		old := b.entry(name)
		if dirty != nil && !dirty[name] && old != nil {
			continue
		}
		e, err := b.readOne(ctx, &known[i], old)
		if errors.Is(err, store.ErrNotFound) { // forgotten just now
			continue
		}
		if err == nil {
			err = b.triedInVain(ctx, e)
		}
		if err != nil {
			return err
		}
		b.mu.Lock()
		b.entries[name] = e
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.entries, func(name string, _ *entry) bool { return !there[name] })
	return nil
}

// all are the entries by name, which are read if that was not done yet.
func (b *board) all(ctx context.Context) (map[string]*entry, error) {
	b.mu.Lock()
	entries, unread := maps.Clone(b.entries), b.dirty == nil
	b.mu.Unlock()
	if len(entries) > 0 || !unread {
		return entries, nil
	}
	if err := b.refresh(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.entries), nil
}

func (b *board) entry(name string) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.entries[name]
}

// readOne reads one Source; old is what was read of it before, nil for nothing.
func (b *board) readOne(ctx context.Context, known *store.Source, old *entry) (*entry, error) {
	e := &entry{known: *known, feeds: map[int64]bool{}}
	var err error
	if e.status, err = report.StatusOf(ctx, b.d.st, known); err != nil {
		return nil, err
	}
	src, _ := b.d.sources.config().Source(known.Name)
	for i := range e.status.Sets {
		set := &e.status.Sets[i]
		if old != nil && old.feeds[set.ID] {
			e.feeds[set.ID] = true
		} else if e.feeds[set.ID], err = mirror.IsFeed(ctx, b.d.st, src.Kind, known.ID,
			set.CapabilityList); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// owedSample is how many owed resources are looked at for one that tells why.
const owedSample = 50

// triedInVain adds an owed resource that says why resources are owed: the one that was tried most often.
func (b *board) triedInVain(ctx context.Context, e *entry) error {
	if !slices.ContainsFunc(e.status.Sets, func(s report.SetStatus) bool { return s.Owed > 0 }) {
		return nil
	}
	rs, err := b.d.st.Scan(ctx, store.ScanQuery{SourceID: e.known.ID, Filter: store.FilterOwed, Limit: owedSample})
	for _, r := range rs {
		if r.Work.Attempts > 0 && (e.owed == nil || r.Work.Attempts > e.owed.Work.Attempts) {
			e.owed = r
		}
	}
	return err
}

// tell says to all who listen that something may be another than before.
func (b *board) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.news)
	b.news = make(chan struct{})
}

// changedNext is console.Data's Changed.
func (b *board) changedNext() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.news
}
