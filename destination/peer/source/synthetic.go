package source

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
)

// firstModified is the first Last-Modified of all resources: 2020-01-01.
const firstModified = 1_577_836_800

// generator makes up the resources: slot n holds the number n+1.
type generator struct {
	Synthetic
	s      *Source
	random *rand.Rand // of step, which alone changes the catalog
}

func (s *Source) makeResources(ctx context.Context) error {
	o := *s.options.Synthetic
	m := &generator{Synthetic: o, s: s, random: rand.New(rand.NewPCG(o.Seed, 0x5eed))}
	s.backend = m
	s.catalog.index = nil
	for range o.Resources {
		s.catalog.grow()
	}
	workers := runtime.GOMAXPROCS(0)
	group, ctx := errgroup.WithContext(ctx)
	for w := range workers {
		// Workers have whole pages, so that no two write to one.
		group.Go(func() error {
			for i := w; i < len(s.catalog.pages); i += workers {
				if err := ctx.Err(); err != nil {
					return fmt.Errorf("make resources: %w", err)
				}
				for k := range min(pageSize, o.Resources-i*pageSize) {
					s.catalog.pages[i].records[k] = m.record(i*pageSize+k, 0, firstModified)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	s.catalog.live = o.Resources
	return nil
}

// record is a live record of a version.
func (m *generator) record(slot int, version, modified int64) record {
	r := record{live: true, version: version, modified: modified}
	// Reading letters cannot fail.
	_ = m.s.digests.fill(&r, m.Content(slot+1, version))
	return r
}

func (m *generator) reach(slot int, rec *record) func() (body, error) {
	version, modified := rec.version, time.Unix(rec.modified, 0)
	return func() (body, error) {
		return body{ReadSeeker: m.Content(slot+1, version), modified: modified, exact: true}, nil
	}
}

// run makes Rate changes a second, however coarse the timer is.
func (m *generator) run(ctx context.Context) {
	if m.Rate == 0 {
		return
	}
	ticker := time.NewTicker(max(10*time.Millisecond, time.Duration(float64(time.Second)/m.Rate)))
	defer ticker.Stop()
	begin, done := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			due := int(time.Since(begin).Seconds() * m.Rate)
			m.step(due - done)
			done = due
		}
	}
}

// step makes n changes. What the n-th since New is depends on the options alone.
func (m *generator) step(n int) {
	for range n {
		slot, version, alive := m.choose()
		next := record{version: version}
		if alive {
			next = m.record(slot, version, m.s.options.Now().Unix())
		}
		m.s.mu.Lock()
		if slot == m.s.catalog.slots {
			m.s.catalog.grow()
		}
		m.s.publish(slot, next)
		m.s.mu.Unlock()
	}
}

// choose picks the next change: a slot, its version and whether it is then alive.
func (m *generator) choose() (slot int, version int64, alive bool) {
	m.s.mu.RLock()
	defer m.s.mu.RUnlock()
	c := &m.s.catalog
	dead, dice := c.slots-c.live, m.random.IntN(5)
	switch {
	case c.live > 0 && dice < 3:
		slot = m.pick(true)
		return slot, c.at(slot).version + 1, true
	case c.live > m.Resources || c.live > 0 && c.live == m.Resources && dice == 3:
		slot = m.pick(true)
		return slot, c.at(slot).version, false
	case dead > 0 && (dead > m.Resources/4+10 || m.random.IntN(2) == 0):
		slot = m.pick(false)
		return slot, c.at(slot).version + 1, true
	}
	return c.slots, 0, true
}

// pick chooses a slot that is alive or dead, as asked; there is one.
func (m *generator) pick(alive bool) int {
	c := &m.s.catalog
	slot := m.random.IntN(c.slots)
	for c.at(slot).live != alive {
		slot = (slot + 1) % c.slots
	}
	return slot
}
