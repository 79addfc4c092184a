package source

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// firstModified is the first Last-Modified of all resources: 2020-01-01.
const firstModified = 1_577_836_800

// generator makes up the resources: slot n of the catalog holds the number n+1.
type generator struct {
	Synthetic
	s      *Source
	random *rand.Rand // of step, which alone changes the catalog
}

func (s *Source) makeResources(ctx context.Context) error {
	o := *s.options.Synthetic
	m := &generator{Synthetic: o, s: s, random: rand.New(rand.NewPCG(o.Seed, 0x5eed))}
	s.backend = m
	s.catalog.most = 0
	all := make([]*record, o.Resources)
	workers := runtime.GOMAXPROCS(0)
	group, ctx := errgroup.WithContext(ctx)
	for w := range workers {
		group.Go(func() error {
			for i := w; i < len(all); i += workers {
				if err := ctx.Err(); err != nil {
					return fmt.Errorf("make resources: %w", err)
				}
				all[i] = m.record(i+1, 0, firstModified)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, rec := range all {
		s.catalog.set(rec)
	}
	return nil
}

// record is a live record of a version.
func (m *generator) record(number int, version, modified int64) *record {
	r := &record{name: m.Name(number), live: true, version: version, modified: modified, content: m}
	// Reading letters cannot fail.
	_ = m.s.digests.fill(r, m.Content(number, version))
	return r
}

func (m *generator) open(rec *record) (body, error) {
	number, err := strconv.Atoi(strings.TrimPrefix(rec.name, "res/"))
	return body{ReadSeeker: m.Content(number, rec.version), modified: time.Unix(rec.modified, 0), exact: true}, err
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
		number, version, alive := m.choose()
		next := &record{name: m.Name(number), version: version}
		if alive {
			next = m.record(number, version, m.s.options.Now().Unix())
		}
		m.s.mu.Lock()
		m.s.publish(next)
		m.s.mu.Unlock()
	}
}

// choose picks the next change: the number of a resource, its version and whether it is then alive.
func (m *generator) choose() (number int, version int64, alive bool) {
	m.s.mu.RLock()
	defer m.s.mu.RUnlock()
	all, live := m.s.catalog.all, m.s.catalog.live
	dead, dice := len(all)-live, m.random.IntN(5)
	switch {
	case live > 0 && dice < 3:
		slot := m.pick(all, true)
		return slot + 1, all[slot].version + 1, true
	case live > m.Resources || live > 0 && live == m.Resources && dice == 3:
		slot := m.pick(all, true)
		return slot + 1, all[slot].version, false
	case dead > 0 && (dead > m.Resources/4+10 || m.random.IntN(2) == 0):
		slot := m.pick(all, false)
		return slot + 1, all[slot].version + 1, true
	}
	return len(all) + 1, 0, true
}

// pick chooses a slot that is alive or dead, as asked; there is one.
func (m *generator) pick(all []*record, alive bool) int {
	slot := m.random.IntN(len(all))
	for all[slot].live != alive {
		slot = (slot + 1) % len(all)
	}
	return slot
}
