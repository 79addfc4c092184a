package callback

import (
	"context"
	"sync"
	"time"

	"resyncd/store"
)

const cannotMeasure = "the inbox is taken to be as full as when it could be measured last"

// Run commits what the handler accepts until ctx ends, then the rest. End it after Serve has
// returned, so that every notification gets its answer.
func (c *Callback) Run(ctx context.Context) error {
	if err := c.inbox.quota.measure(ctx, c.o.Store, true); err != nil {
		c.tallies.failure(cannotMeasure, store.Subscription{}, err)
	}
	var beside sync.WaitGroup
	beside.Go(func() { c.tick(ctx) })
	c.inbox.run(ctx, c.tallies.failure)
	beside.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	c.flush(last)
	return nil
}

func (c *Callback) tick(ctx context.Context) {
	clock := time.NewTicker(tallyEvery)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
			c.flush(ctx)
			if err := c.inbox.quota.measure(ctx, c.o.Store, false); err != nil && ctx.Err() == nil {
				c.tallies.failure(cannotMeasure, store.Subscription{}, err)
			}
		}
	}
}

func (c *Callback) flush(ctx context.Context) {
	if err := protect("count rejected notifications", func() error { c.tallies.flush(ctx); return nil }); err != nil {
		c.tallies.failure("counts of rejected notifications are lost", store.Subscription{}, err)
	}
}
