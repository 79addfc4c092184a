package sync

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"resyncd/store"
	"resyncd/store/blob"
)

// fate is what befalls a Destination at one of its durable steps, and at some that follow.
type fate struct {
	mu   sync.Mutex
	what stroke
	left int // steps that go well before
	last int // steps that it befalls; a kill is for ever
	met  int // how many it has befallen
}

// stroke is how one durable step goes.
type stroke uint8

const (
	well     stroke = iota
	killed          // nothing durable happens from here on
	failed          // the disk does not do it, and says so
	doubtful        // the disk does it, and does not confirm it (F10)
)

// errDisk is what a failing state disk tells.
var errDisk = errors.New("the state's disk fails here by the test")

// strikes lets a stroke fall after so many steps, in place of whatever was to come.
func (f *fate) strikes(what stroke, after, steps int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.what, f.left, f.last = what, after, steps
}

// relents ends it.
func (f *fate) relents() { f.strikes(well, 0, 0) }

// dead tells whether a kill has fallen.
func (f *fate) dead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.what == killed && f.left <= 0
}

func (f *fate) step() stroke {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.what == well {
		return well
	}
	if f.left > 0 {
		f.left--
		return well
	}
	f.met++
	if f.what == killed {
		return killed
	}
	what := f.what
	if f.last--; f.last <= 0 {
		f.what = well
	}
	return what
}

// fatedStore is a state database under a fate. A commit that was not confirmed may be there after a new start: the
// database lets nothing more be written until then.
type fatedStore struct {
	store.Store
	fate *fate
}

func (s fatedStore) Commit(ctx context.Context, c *store.Commit) error {
	switch s.fate.step() {
	case killed:
		return errKilled
	case failed:
		return errDisk
	case doubtful:
		s.fate.strikes(killed, 0, 0)
		if err := s.Store.Commit(ctx, c); err != nil {
			return err
		}
		return errKilled
	}
	return s.Store.Commit(ctx, c)
}

// fatedMirror is a mirror under a fate.
type fatedMirror struct {
	blob.Mirror
	fate *fate
}

// each carries out those steps of a group that are carried out at all, in their order, and gives each its error.
func (m fatedMirror) each(n int, carryOut func(do []int) []error) []error {
	errs := make([]error, n)
	var do []int
	for i := range errs {
		switch m.fate.step() {
		case killed:
			errs[i] = errKilled
		case failed:
			errs[i] = fmt.Errorf("%w: by the test", blob.ErrNoSpace)
		case doubtful:
			errs[i] = fmt.Errorf("%w: by the test", blob.ErrSync)
			do = append(do, i)
		default:
			do = append(do, i)
		}
	}
	for j, err := range carryOut(do) {
		if err != nil {
			errs[do[j]] = err
		}
	}
	return errs
}

func (m fatedMirror) Place(ctx context.Context, group []blob.Placement) ([]error, error) {
	var systemic error
	errs := m.each(len(group), func(do []int) []error {
		some := chosen(group, do)
		errs, err := m.Mirror.Place(ctx, some)
		for j, i := range do {
			group[i] = some[j] // it tells what was displaced
		}
		systemic = err
		return errs
	})
	for _, err := range errs {
		if systemic == nil && blob.Systemic(err) {
			systemic = err
		}
	}
	return errs, systemic
}

func (m fatedMirror) Trash(ctx context.Context, items []blob.TrashItem) []error {
	return m.each(len(items), func(do []int) []error { return m.Mirror.Trash(ctx, chosen(items, do)) })
}

func (m fatedMirror) Remove(ctx context.Context, keys []string) []error {
	return m.each(len(keys), func(do []int) []error { return m.Mirror.Remove(ctx, chosen(keys, do)) })
}

func (m fatedMirror) DropTrash(ctx context.Context, id string) error {
	return m.each(1, func(do []int) []error {
		if len(do) == 0 {
			return nil
		}
		return []error{m.Mirror.DropTrash(ctx, id)}
	})[0]
}

// chosen are some of a group.
func chosen[T any](all []T, which []int) []T {
	some := make([]T, len(which))
	for j, i := range which {
		some[j] = all[i]
	}
	return some
}
