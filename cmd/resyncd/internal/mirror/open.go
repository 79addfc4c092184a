// Package mirror knows where the mirror of a Source and its state lie, and how they are opened as configured. It
// refuses to know what is done with them.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/store/blob/dir"
	"resyncd/store/sqlite"
	syncengine "resyncd/sync"
)

// Opened is a place whose state, and mirror where there is one, are open.
type Opened struct {
	Place
	Engine *syncengine.Engine
	Known  *store.Source // nil before the first run
	Target syncengine.Target
	// begun says that a first run never came as far as a set, so files here need not be ours.
	begun   bool
	version string // of the program
	closing func() error
}

// Over is a place whose state is the caller's to open and close.
func Over(engine *syncengine.Engine, p Place) *Opened {
	return &Opened{Place: p, Engine: engine, closing: func() error { return nil }}
}

// Close closes what is open.
func (o *Opened) Close() error { return o.closing() }

// Absent says what to do about a state database that is not there.
func (p *Place) Absent(err error) error {
	switch {
	case !errors.Is(err, store.ErrNotFound):
		return err
	case !p.AdHoc:
		return absent("%s was never synchronised: run `resyncd sync %[1]s` first", p.Source.Name)
	}
	if state, _, err := dir.Inspect(p.Root); err == nil && state == dir.Marked {
		return absent("%s carries no state of its own: if it is the mirror of a configured Source, use the Source's "+
			"name; if its state was lost, run `resyncd sync URL %s`", p.Root, p.Label())
	}
	return absent("%s holds no mirror: run `resyncd sync URL %s` first", p.Root, p.Label())
}

func absent(format string, args ...any) error { return &absentError{fmt.Sprintf(format, args...)} }

// absentError is store.ErrNotFound in the words of a user.
type absentError struct{ text string }

func (e *absentError) Error() string { return e.text }

func (e *absentError) Unwrap() error { return store.ErrNotFound }

// Identify finds the Source in the state. A mirror folder holds one.
func (o *Opened) Identify(ctx context.Context) error {
	if !o.AdHoc {
		known, err := o.Engine.Store.Source(ctx, o.Source.Name)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		o.Known = &known
		return err
	}
	all, err := o.Engine.Store.Sources(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	known := all[0]
	if o.Source.URL == "" {
		o.Source.URL = known.URL
	}
	o.Source.Name, o.Known = known.Name, &known
	return nil
}

// Holder is what others are told of who holds a Source.
func Holder(program string, now time.Time) string {
	host, err := os.Hostname()
	if err != nil {
		host = "this machine"
	}
	return fmt.Sprintf("%s, process %d on %s, since %s", program, os.Getpid(), host, now.UTC().Format(time.RFC3339))
}

// unknown is the error of a Source that was never synchronised.
func (o *Opened) unknown() error {
	switch {
	case o.Known != nil:
		return nil
	case o.AdHoc:
		return absent("%s knows no Source: run `resyncd sync URL %s` first", o.Root, o.Label())
	}
	return o.Absent(store.ErrNotFound)
}

// rootState is how a run stands on what lies where the mirror is or shall be.
type rootState struct {
	state dir.State
	id    string // of the root marker, "" for none
	adopt bool
	sweep bool
}

// rootState only looks. A mirror that the state knows must carry its marker: an unmounted disk must not look like an
// empty mirror (F12). In a folder that was ours before its state was lost, files that no list names are swept.
func (o *Opened) rootState() (f rootState, err error) {
	f.state, f.id, err = dir.Inspect(o.Root)
	if err != nil {
		return f, err
	}
	switch {
	case o.Known != nil && o.Known.RootID != "":
		f.id = o.Known.RootID
	case f.state == dir.Marked:
		f.adopt, f.sweep = true, syncengine.LostState(o.Known) && !o.begun
	default:
		f.adopt = f.state == dir.Foreign
	}
	return f, nil
}

// OpenMirror opens the Source's mirror, which must be there, and completes the target.
func (o *Opened) OpenMirror(write bool) error {
	f, err := o.rootState()
	if err == nil && f.id == "" {
		err = fmt.Errorf("%s holds no mirror: run `resyncd sync` first", o.Root)
	}
	if err != nil {
		return err
	}
	return o.openRoot(f, dir.Options{ReadOnly: !write})
}

// MakeMirror is OpenMirror for a run: a new mirror is made.
func (o *Opened) MakeMirror(ctx context.Context) error {
	f, err := o.rootState()
	if err != nil {
		return err
	}
	// The Source first: after a kill between marker and Source the next run would take files of others for ours.
	record := o.Engine.Store.EnsureSource
	if f.id == "" && f.state == dir.Foreign || o.begun {
		record = o.Engine.Adopt
	}
	if f.id == "" || o.begun {
		known, err := record(ctx, o.Source.Name, o.Source.URL)
		if err != nil {
			return err
		}
		o.Known = &known
	}
	if f.id == "" {
		if f.id, err = dir.Create(o.Root); err != nil {
			return err
		}
	}
	return o.openRoot(f, dir.Options{})
}

func (o *Opened) openRoot(f rootState, options dir.Options) error {
	options.Unsynced = o.Source.Durability == config.DurabilityNone
	m, err := dir.Open(o.Root, f.id, options)
	if errors.Is(err, blob.ErrUnmarked) && o.AdHoc {
		return fmt.Errorf("%s has a state database, but its root marker %s is missing or another's: bring it back, or "+
			"move %s aside to begin anew (files that match are kept)",
			o.Root, filepath.Join(o.Root, blob.Reserved, "root"), o.State)
	}
	if err != nil {
		return err
	}
	t := &o.Target
	t.Mirror, t.RootID, t.Adopt, t.SweepExtra = m, f.id, f.adopt, f.sweep
	inner := o.closing
	o.closing = func() error { return errors.Join(m.Close(), inner()) }
	return nil
}

// mostConcurrency is more than the policy of a Source allows, which holds it to its own bounds.
const mostConcurrency = 1024

// Client makes the way to the network, for the requests of any Source under its policy.
func Client(cfg *config.Config, version string, log *slog.Logger) *fetch.Client {
	agent := cfg.Network.UserAgent
	if agent == "" {
		agent = "resyncd/" + version
		if cfg.Network.Contact != "" {
			agent += " (+" + cfg.Network.Contact + ")"
		}
	}
	return fetch.New(fetch.Options{
		UserAgent: agent, Allow: slices.Clone(cfg.Network.Allow), Concurrency: mostConcurrency,
		IdleTimeout: cfg.Network.IdleTimeout, Log: log,
	})
}

// Connect fills the target and gives it a client of its own; done closes that.
func (o *Opened) Connect() (done func()) {
	o.Fill()
	o.Target.Client = Client(o.Config, o.version, o.Engine.Log)
	o.Target.Policy = PolicyOf(&o.Source)
	return o.Target.Client.Close
}

// Fill fills the target from the configuration.
func (o *Opened) Fill() {
	s, t := &o.Source, &o.Target
	t.Name, t.URL, t.Sets = s.Name, s.URL, s.Sets
	t.Kind, t.Records, t.Follow, t.Hub, t.Topic = syncengine.Kind(s.Kind), s.Records, s.Follow, s.Hub, s.Topic
	t.Scope, t.Include, t.Exclude = s.Scope, s.Include, s.Exclude
	t.Collections, t.Metadata, t.Dumps, t.MaxDump = s.Collections, s.Metadata, s.Dumps, int64(s.MaxDump)
	t.Duplicates, t.Patches = s.Duplicates, s.Patches == config.PatchesOn
	t.Batch, t.BatchSize = s.Batch, s.BatchSize
	t.Delete, t.TrashFor, t.DeleteGuard = syncengine.DeleteMode(s.Delete), s.Trash, s.DeleteGuard.Share()
	if len(o.Config.Network.Allow) > 0 {
		t.Reach = fmt.Sprint(o.Config.Network.Allow)
	}
	t.GapPatience, t.MaxResource, t.Concurrency = s.GapPatience, int64(s.MaxResource), s.Concurrency
}

// PolicyOf allows the hosts that the operator wrote down whatever their addresses, and sends credentials to the
// Source's own origin only (CONTRIBUTING.md 8).
func PolicyOf(s *config.Source) *fetch.Policy {
	p := &fetch.Policy{Concurrency: s.Concurrency, Rate: s.Rate}
	for _, raw := range slices.Concat([]string{s.URL, s.Hub, s.Topic, s.Batch}, s.Sets, s.Scope) {
		if u, err := url.Parse(raw); err == nil && u.Host != "" {
			p.Trusted = append(p.Trusted, u.Host)
		}
	}
	a := fetch.Auth{Bearer: s.Auth.Bearer.Reveal(), BasicUser: s.Auth.BasicUser,
		BasicPassword: s.Auth.BasicPassword.Reveal(), Headers: map[string]string{}}
	for k, v := range s.Auth.Header {
		a.Headers[k] = v.Reveal()
	}
	if u, err := url.Parse(s.URL); err == nil && (a.Bearer != "" || a.BasicUser != "" || len(a.Headers) > 0) {
		p.Auth, p.AuthOrigin = &a, u.Scheme+"://"+u.Host
	}
	return p
}

// Opener finds and opens mirrors, as one command line has it.
type Opener struct {
	File    string // of the configuration; "" for the one that is found
	Environ []string
	Flags   []config.Flag
	Version string // of the program
	Log     *slog.Logger
	Now     func() time.Time
	Say     func(format string, args ...any) // tells a person

	warned map[string]bool
}

// openState opens the state database; for reading it must exist.
func (op *Opener) openState(ctx context.Context, p *Place, write bool) (*Opened, error) {
	st, err := sqlite.Open(ctx, p.State, sqlite.Options{ReadOnly: !write, Log: op.Log})
	if err != nil {
		return nil, p.Absent(err)
	}
	o := &Opened{Place: *p, version: op.Version, closing: st.Close}
	o.Engine = &syncengine.Engine{Store: st, Log: op.Log, Holder: Holder("resyncd", op.Now()), Now: op.Now}
	return o.after(func() error { return o.Identify(ctx) })
}

// after is o once steps are done; it is closed when one of them fails.
func (o *Opened) after(steps ...func() error) (*Opened, error) {
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, errors.Join(err, o.Close())
		}
	}
	return o, nil
}

// OpenKnown opens the state of a Source that was synchronised before. It is read first, as opening it for writing would
// make it.
func (op *Opener) OpenKnown(ctx context.Context, p *Place, write bool) (*Opened, error) {
	o, err := op.openState(ctx, p, false)
	if err == nil {
		o, err = o.after(o.unknown)
	}
	if err != nil || !write {
		return o, err
	}
	if err := o.Close(); err != nil {
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
	if err == nil {
		o, err = open(ctx, p, true)
	}
	if err != nil {
		return nil, err
	}
	return o.after(func() error { return o.checkURL(ctx) }, func() error { return o.MakeMirror(ctx) })
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
			"forget %s` first", o.Root, o.Known.URL, o.Label())
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
	q := *p
	q.State = filepath.Join(tmp, StateFile)
	err = sqlite.Snapshot(ctx, p.State, q.State)
	if err != nil && (!errors.Is(err, store.ErrNotFound) || p.Source.URL == "") {
		return nil, errors.Join(p.Absent(err), drop())
	}
	if o, err = op.openState(ctx, &q, true); err != nil {
		return nil, errors.Join(err, drop())
	}
	inner := o.closing
	o.closing = func() error { return errors.Join(inner(), drop()) }
	known := o.unknown
	if p.Source.URL != "" {
		known = func() error { return nil }
	}
	return o.after(known, func() error { return o.checkURL(ctx) }, o.openForPlan)
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
