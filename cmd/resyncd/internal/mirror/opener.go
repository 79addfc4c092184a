// Package mirror knows where the mirror of a Source and its state lie, and how they are opened as configured. It
// refuses to know what is done with them.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/store"
	"resyncd/store/blob/dir"
	"resyncd/store/sqlite"
	syncengine "resyncd/sync"
)

// Opener finds and opens mirrors, as one command line has it.
type Opener struct {
	*Settings
	Version string // of the program
	Log     *slog.Logger
	Now     func() time.Time
	Say     func(format string, args ...any) // tells a person
}

// openState opens the state database; for reading it must exist.
func (op *Opener) openState(ctx context.Context, p *Place, write bool) (*Opened, error) {
	st, err := sqlite.Open(ctx, p.State, sqlite.Options{ReadOnly: !write, Log: op.Log})
	if err != nil {
		return nil, p.Absent(err)
	}
	o := &Opened{Place: *p, version: op.Version, closing: st.Close}
	o.Engine = &syncengine.Engine{Store: st, Log: op.Log, Holder: Holder("resyncd", op.Now()), Now: op.Now}
	if err := o.Identify(ctx); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// OpenKnown opens the state of a Source that was synchronised before. It is read first, as opening it for writing would
// make it.
func (op *Opener) OpenKnown(ctx context.Context, p *Place, write bool) (*Opened, error) {
	o, err := op.openState(ctx, p, false)
	if err != nil {
		return nil, err
	}
	err = o.unknown()
	if err == nil && !write {
		return o, nil
	}
	if err = errors.Join(err, o.Close()); err != nil {
		return nil, err
	}
	return op.openState(ctx, p, true)
}

// OpenForSync opens state and mirror for a run, and makes what is new. A folder without a URL must be a mirror already.
func (op *Opener) OpenForSync(ctx context.Context, p *Place) (o *Opened, err error) {
	open := op.openState
	if p.AdHoc && p.Source.URL == "" {
		open = op.OpenKnown
	} else if p.AdHoc {
		err = p.prepare()
	}
	if err != nil {
		return nil, err
	}
	if o, err = open(ctx, p, true); err != nil {
		return nil, err
	}
	if err = o.checkURL(ctx); err == nil {
		err = o.MakeMirror(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// prepare makes the folder of a `sync URL DIR` mirror. Inspect refuses a link for `.resyncd`, which would lead the
// state elsewhere.
func (p *Place) prepare() error {
	state, _, err := dir.Inspect(p.Root)
	if err != nil || state != dir.Absent {
		return err
	}
	if err := dir.MakeRoot(p.Root); err != nil {
		return fmt.Errorf("create the mirror's folder: %w", err)
	}
	return nil
}

// checkURL refuses the URL of another Source than the one that the folder mirrors, unless that never came as far as a
// set.
func (o *Opened) checkURL(ctx context.Context) error {
	if !o.AdHoc || o.Known == nil || strings.EqualFold(hostOf(o.Source.URL), hostOf(o.Known.URL)) {
		return nil
	}
	sets, err := o.Engine.Store.Sets(ctx, o.Known.ID)
	if err != nil {
		return err
	}
	if len(sets) > 0 {
		return exit.Usage("%s is the mirror of %s: give the other Source a folder of its own, or run `resyncd source "+
			"forget %s` first",
			o.Root, o.Known.URL, o.Label())
	}
	if err := o.Engine.Forget(ctx, syncengine.Target{Name: o.Known.Name}, false); err != nil {
		return err
	}
	o.Source.Name, o.Known, o.begun = hostOf(o.Source.URL), nil, true
	return nil
}

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
