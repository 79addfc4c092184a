package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/store/blob/dir"
	"resyncd/store/sqlite"
	syncengine "resyncd/sync"
)

// opened is a place whose state, and mirror where there is one, are open.
type opened struct {
	place
	engine *syncengine.Engine
	known  *store.Source // the Source as the state knows it, nil before the first run
	target syncengine.Target
	// begun: a first run took place without coming as far as a set, so files here need not be ours.
	begun bool
	close func() error
}

// openState opens the state database; for reading it must exist. It is the caller's to close what it got.
func (sh *shell) openState(ctx context.Context, c *cli.Context, p *place, write bool) (*opened, error) {
	log, err := sh.logger(c)
	if err != nil {
		return nil, err
	}
	st, err := sqlite.Open(ctx, p.state, sqlite.Options{ReadOnly: !write, Log: log})
	if err != nil {
		return nil, p.absent(err)
	}
	o := &opened{place: *p, close: st.Close}
	o.engine = &syncengine.Engine{Store: st, Log: log, Holder: sh.holder(), Now: sh.now}
	if err := o.identify(ctx); err != nil {
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}

// absent says what to do about a state database that is not there.
func (p *place) absent(err error) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if !p.alone {
		return p.never()
	}
	if state, _, ierr := dir.Inspect(p.mirror); ierr == nil && state == dir.Marked {
		return &absentError{fmt.Sprintf("%s carries no state of its own: if it is the mirror of a configured Source, use the Source's name; if its state was lost, run `resyncd sync URL %s`", p.mirror, p.label())}
	}
	return &absentError{fmt.Sprintf("%s holds no mirror: run `resyncd sync URL %s` first", p.mirror, p.label())}
}

// never is the error of a Source that nothing is known of.
func (p *place) never() error {
	return &absentError{fmt.Sprintf("%s was never synchronised: run `resyncd sync %s` first", p.src.Name, p.src.Name)}
}

// absentError is store.ErrNotFound in the words of a user.
type absentError struct{ text string }

func (e *absentError) Error() string { return e.text }

func (e *absentError) Unwrap() error { return store.ErrNotFound }

// identify finds the Source in the state. A mirror folder holds one.
func (o *opened) identify(ctx context.Context) error {
	if !o.alone {
		known, err := o.engine.Store.Source(ctx, o.src.Name)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		o.known = &known
		return err
	}
	all, err := o.engine.Store.Sources(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	known := all[0]
	if o.src.URL == "" {
		o.src.URL = known.URL
	}
	o.src.Name, o.known = known.Name, &known
	return nil
}

func (sh *shell) holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "this machine"
	}
	return fmt.Sprintf("resyncd, process %d on %s, since %s", os.Getpid(), host, sh.now().UTC().Format(time.RFC3339))
}

// source is the Source's record, or an error that says what to do.
func (o *opened) source() (*store.Source, error) {
	if o.known == nil && o.alone {
		return nil, &absentError{fmt.Sprintf("%s knows no Source: run `resyncd sync URL %s` first", o.mirror, o.label())}
	}
	if o.known == nil {
		return nil, o.never()
	}
	return o.known, nil
}

// openExisting opens the state of a Source for writing, but never creates one.
func (sh *shell) openExisting(ctx context.Context, c *cli.Context, p *place) (*opened, error) {
	probe, err := sh.openState(ctx, c, p, false)
	if err != nil {
		return nil, err
	}
	_, err = probe.source()
	if err = errors.Join(err, probe.close()); err != nil {
		return nil, err
	}
	return sh.openState(ctx, c, p, true)
}

// prepare makes the folder of a `sync URL DIR` mirror ready to take its state. The folder is for everybody to read, what
// is below `.resyncd` is not; Inspect refuses a link in that place, which would lead the state elsewhere.
func (p *place) prepare() error {
	state, _, err := dir.Inspect(p.mirror)
	if err != nil {
		return err
	}
	if state != dir.Absent {
		return nil
	}
	if err := dir.MakeRoot(p.mirror); err != nil {
		return fmt.Errorf("create the mirror's folder: %w", err)
	}
	return nil
}

// settleURL holds the URL that was given for a folder against the Source that the folder mirrors. What never came as far
// as a set was a slip, and makes room.
func (o *opened) settleURL(ctx context.Context) error {
	if !o.alone || o.known == nil || strings.EqualFold(hostOf(o.src.URL), hostOf(o.known.URL)) {
		return nil
	}
	sets, err := o.engine.Store.Sets(ctx, o.known.ID)
	if err != nil {
		return err
	}
	if len(sets) > 0 {
		return usage("%s is the mirror of %s: give the other Source a folder of its own, or run `resyncd source forget %s` first",
			o.mirror, o.known.URL, o.label())
	}
	if err := o.engine.Forget(ctx, syncengine.Target{Name: o.known.Name}, false); err != nil {
		return err
	}
	o.src.Name, o.known, o.begun = hostOf(o.src.URL), nil, true
	return nil
}

// footing is how a run would stand on what lies where the mirror is or shall be.
type footing struct {
	state dir.State
	id    string // of the root marker; "": there is none to insist on
	adopt bool
	sweep bool
}

// footing looks; it touches nothing. A mirror that the state knows must carry its marker: an unmounted disk must not look
// like an empty mirror (F12). In a folder that was ours before its state was lost, files that no list names are swept.
func (o *opened) footing() (f footing, err error) {
	f.state, f.id, err = dir.Inspect(o.mirror)
	if err != nil {
		return f, err
	}
	switch {
	case o.known != nil && o.known.RootID != "":
		f.id = o.known.RootID
	case f.state == dir.Marked:
		f.adopt, f.sweep = true, syncengine.LostState(o.known) && !o.begun
	default:
		f.adopt = f.state == dir.Foreign
	}
	return f, nil
}

// openMirror opens the Source's mirror and completes the target; it must be there.
func (o *opened) openMirror(write bool) error {
	f, err := o.footing()
	if err != nil {
		return err
	}
	if f.id == "" {
		return fmt.Errorf("%s holds no mirror: run `resyncd sync` first", o.mirror)
	}
	return o.hold(f, o.options(write))
}

// makeMirror opens the Source's mirror for a run, created where it is new.
func (o *opened) makeMirror(ctx context.Context) error {
	f, err := o.footing()
	if err != nil {
		return err
	}
	// The Source first: were we killed between marker and Source, the next run would take files of others for ours.
	record := o.engine.Store.EnsureSource
	if f.id == "" && f.state == dir.Foreign || o.begun {
		record = o.engine.Adopt
	}
	if f.id == "" || o.begun {
		known, err := record(ctx, o.src.Name, o.src.URL)
		if err != nil {
			return err
		}
		o.known = &known
	}
	if f.id == "" {
		if f.id, err = dir.Create(o.mirror); err != nil {
			return err
		}
	}
	return o.hold(f, o.options(true))
}

func (o *opened) options(write bool) dir.Options {
	options := dir.Options{ReadOnly: !write, Durability: dir.DurableFile}
	if o.src.Durability == config.DurabilityNone {
		options.Durability = dir.DurableNone
	}
	return options
}

// openForPlan opens what there is of a mirror for reading; one that does not exist yet is fine.
func (o *opened) openForPlan() error {
	f, err := o.footing()
	if err != nil {
		return err
	}
	if f.id == "" && f.state != dir.Foreign {
		return nil
	}
	return o.hold(f, dir.Options{ReadOnly: true, Unmarked: f.id == ""})
}

func (o *opened) hold(f footing, options dir.Options) error {
	m, err := dir.Open(o.mirror, f.id, options)
	if errors.Is(err, blob.ErrUnmarked) && o.alone {
		return fmt.Errorf("%s has a state database, but its root marker %s is missing or another's: bring it back, or move %s aside to begin anew (files that match are kept)",
			o.mirror, filepath.Join(o.mirror, blob.Reserved, "root"), o.state)
	}
	if err != nil {
		return err
	}
	t := &o.target
	t.Mirror, t.RootID, t.Adopt, t.SweepExtra = m, f.id, f.adopt, f.sweep
	inner := o.close
	o.close = func() error { return errors.Join(m.Close(), inner()) }
	return nil
}
