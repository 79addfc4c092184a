package mirror

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"resyncd/store"
	"resyncd/store/blob/dir"
	"resyncd/store/sqlite"
)

// OpenCopy opens a temporary copy of the state, and the mirror, if there is one, for reading.
func (op *Opener) OpenCopy(ctx context.Context, p *Place) (o *Opened, err error) {
	tmp, err := os.MkdirTemp("", "resyncd-plan-")
	if err != nil {
		return nil, err
	}
	drop := func() error { return os.RemoveAll(tmp) }
	defer func() {
		if err != nil {
			err = errors.Join(err, drop())
		}
	}()
	q := *p
	q.State = filepath.Join(tmp, StateFile)
	err = sqlite.Snapshot(ctx, p.State, q.State)
	if err != nil && (!errors.Is(err, store.ErrNotFound) || p.Source.URL == "") {
		return nil, p.Absent(err)
	}
	o, err = op.openState(ctx, &q, true)
	if err != nil {
		return nil, err
	}
	if p.Source.URL == "" {
		err = o.unknown()
	}
	if err == nil {
		err = o.checkURL(ctx)
	}
	if err == nil {
		err = o.openForPlan()
	}
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	inner := o.closing
	o.closing = func() error { return errors.Join(inner(), drop()) }
	return o, nil
}

// openForPlan opens a mirror for reading if there is one.
func (o *Opened) openForPlan() error {
	f, err := o.rootState()
	if err != nil {
		return err
	}
	if f.id == "" && f.state != dir.Foreign {
		return nil
	}
	return o.openRoot(f, dir.Options{ReadOnly: true, Unmarked: f.id == ""})
}
