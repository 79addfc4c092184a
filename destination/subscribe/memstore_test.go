package subscribe

import (
	"context"
	"errors"
	"sync"

	"resyncd/store"
)

// memory is a store.Subscriptions in memory.
type memory struct {
	mu       sync.Mutex
	rows     map[int64]*store.Subscription
	bySource map[int64][]int64
	byToken  map[string]int64
	last     int64
	broken   error // what every write fails with
	writes   int
	check    func(s *store.Subscription) // sees each record as it is written
}

func newMemory() *memory {
	return &memory{rows: map[int64]*store.Subscription{}, bySource: map[int64][]int64{}, byToken: map[string]int64{}}
}

func (m *memory) AddSubscription(ctx context.Context, s *store.Subscription) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fails(ctx); err != nil {
		return err
	}
	if _, taken := m.byToken[s.Token]; taken {
		return errors.New("token taken")
	}
	m.last++
	s.ID = m.last
	m.byToken[s.Token] = s.ID
	m.bySource[s.SourceID] = append(m.bySource[s.SourceID], s.ID)
	m.keep(*s)
	return nil
}

func (m *memory) fails(ctx context.Context) error {
	if m.broken != nil {
		return m.broken
	}
	return ctx.Err()
}

func (m *memory) keep(s store.Subscription) {
	m.writes++
	if m.check != nil {
		m.check(&s)
	}
	m.rows[s.ID] = &s
}

func (m *memory) ChangeSubscription(ctx context.Context, id int64, fn func(*store.Subscription) error) (store.Subscription, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fails(ctx); err != nil {
		return store.Subscription{}, err
	}
	r := m.rows[id]
	if r == nil {
		return store.Subscription{}, store.ErrNotFound
	}
	s := *r
	if err := fn(&s); err != nil {
		return store.Subscription{}, err
	}
	if s != *r {
		m.keep(s)
	}
	return s, nil
}

func (m *memory) Subscription(_ context.Context, id int64) (store.Subscription, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.rows[id]; r != nil {
		return *r, nil
	}
	return store.Subscription{}, store.ErrNotFound
}

func (m *memory) SubscriptionByToken(ctx context.Context, token string) (store.Subscription, error) {
	m.mu.Lock()
	id := m.byToken[token]
	m.mu.Unlock()
	return m.Subscription(ctx, id)
}

func (m *memory) Subscriptions(_ context.Context, sourceID int64, gone bool) ([]store.Subscription, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []store.Subscription
	take := func(id int64) {
		if r := m.rows[id]; r != nil && (gone || r.State != store.SubGone) {
			out = append(out, *r)
		}
	}
	if sourceID != 0 {
		for _, id := range m.bySource[sourceID] {
			take(id)
		}
		return out, nil
	}
	for id := int64(1); id <= m.last; id++ {
		take(id)
	}
	return out, nil
}

func (m *memory) TallySubscription(context.Context, int64, store.Tally) error { return nil }

// crashed is a process's view of the memory that ends with the process: what it writes afterwards is lost.
type crashed struct {
	*memory
	mu   sync.RWMutex
	over bool
}

var errCrashed = errors.New("crashed")

func (c *crashed) crash() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

func (c *crashed) AddSubscription(ctx context.Context, s *store.Subscription) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.over {
		return errCrashed
	}
	return c.memory.AddSubscription(ctx, s)
}

func (c *crashed) ChangeSubscription(ctx context.Context, id int64, fn func(*store.Subscription) error) (store.Subscription, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.over {
		return store.Subscription{}, errCrashed
	}
	return c.memory.ChangeSubscription(ctx, id, fn)
}

// meanwhile is a memory to which something else happens right after it was written or read.
type meanwhile struct {
	*memory
	added, listed func()
}

func (m *meanwhile) AddSubscription(ctx context.Context, s *store.Subscription) error {
	err := m.memory.AddSubscription(ctx, s)
	if m.added != nil {
		m.added()
	}
	return err
}

func (m *meanwhile) Subscriptions(ctx context.Context, sourceID int64, gone bool) ([]store.Subscription, error) {
	all, err := m.memory.Subscriptions(ctx, sourceID, gone)
	if m.listed != nil {
		m.listed()
	}
	return all, err
}
