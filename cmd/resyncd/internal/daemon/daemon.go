// Package daemon knows how configured Sources are followed for as long as a process runs: it ties engine, keeper,
// callback, queue and console together. It refuses to know how any of them works, and who started it.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/gofrs/flock"

	"resyncd/callback"
	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/destination/fetch"
	"resyncd/destination/safe"
	"resyncd/destination/subscribe"
	"resyncd/store"
	"resyncd/store/sqlite"
	syncengine "resyncd/sync"
	"resyncd/sync/queue"
)

// endWithin is how long an orderly end may take (F4); what is not done by then is done again after the next start.
const endWithin = 9 * time.Second

// Daemon is `resyncd serve`: the listeners, the store, and a runner for each configured Source.
type Daemon struct {
	o         Options
	manager   *manager
	started   time.Time
	parts     parts
	listeners listeners
	unlock    func() error // of data_dir

	st     store.Store
	client *fetch.Client
	engine *syncengine.Engine
	keeper *subscribe.Keeper
	jobs   jobs

	sources  sources
	hubs     *hubs
	operator *operator
	metrics  *console.Metrics
	board    *board
	sampler  *sampler
}

// Build is which resyncd this is.
type Build struct{ Version, Commit string }

// Options are what a daemon is made of.
type Options struct {
	Config *config.Config
	Log    *slog.Logger
	Now    func() time.Time
	Build  Build
	// Reread loads the configuration anew, for a reload.
	Reread func() (*config.Config, error)
	// Out is told where the daemon listens and whom it follows, unless Announce is: host:port each, the console's ""
	// for none.
	Out      io.Writer
	Announce func(callback, console string) error
	// Observe is told of what Followers do, beside the daemon's own.
	Observe syncengine.Observer
}

// New makes a daemon that nothing runs of yet.
func New(o Options) *Daemon {
	d := &Daemon{
		o: o, manager: newManager(o.Log), started: o.Now(), metrics: console.NewMetrics(), sampler: newSampler(o.Now),
		parts:   parts{log: o.Log, failed: make(chan error, 1)},
		sources: sources{cfg: o.Config, byName: map[string]*runner{}, byID: map[int64]*runner{}},
	}
	d.board, d.hubs, d.operator = newBoard(d), newHubs(d), newOperator(d)
	d.jobs = jobs{queue.NewLocal(queue.LocalOptions{Now: o.Now, Failed: d.jobFailed})}
	return d
}

// Data is what the console of the daemon shows and does.
func (d *Daemon) Data() console.Data { return &dashboard{d} }

// Run serves until ctx ends or a part fails; a signal of reload has it read its configuration again. Its end is
// orderly, within endWithin; what still works then is left to the end of the process, which the state bears (F1).
func (d *Daemon) Run(ctx context.Context, reload <-chan os.Signal) error {
	served, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		served <- d.serve(ctx, reload)
		d.manager.stopping()
		ended <- d.end()
	}()
	var err error
	select { // a start or a reload that a dead disk holds up must not put off the end
	case err = <-served:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		err = nil // whatever could not be begun any more
	}
	select {
	case stopped := <-ended:
		if all := errors.Join(err, stopped); all != nil && ctx.Err() == nil {
			return &exit.Ended{Err: all}
		}
		if stopped != nil {
			d.o.Log.Error("the end was not orderly; the state bears that", logging.Err(stopped))
		}
		return nil
	case <-time.After(endWithin):
		d.o.Log.Error("stopped hard: something did not end in time; the state is consistent, the next start goes on")
		return err
	}
}

// serve opens everything and stays until ctx ends or a part fails.
func (d *Daemon) serve(ctx context.Context, reload <-chan os.Signal) error {
	if err := d.open(ctx); err != nil {
		return err
	}
	d.o.Log.Info("serving", "version", d.o.Build.Version, "sources", len(d.sources.config().Sources))
	for {
		d.manager.ready(fmt.Sprintf("%d Sources", len(d.sources.config().Sources)))
		select {
		case <-ctx.Done():
			d.o.Log.Info("stopping")
			return nil
		case err := <-d.parts.failed:
			return err
		case <-reload:
			d.manager.reloading()
			d.reload(ctx)
		}
	}
}

// open starts everything: the listeners first, so that hubs get a 503 and not a refused connection while the store
// opens.
func (d *Daemon) open(ctx context.Context) error {
	cfg := d.sources.config()
	if err := d.listen(ctx); err != nil {
		return orHeld(ctx, cfg.DataDir, err)
	}
	var err error
	if d.unlock, err = lockData(ctx, cfg.DataDir); err != nil {
		return err
	}
	st, err := sqlite.Open(ctx, filepath.Join(cfg.DataDir, mirror.StateFile), sqlite.Options{Log: d.o.Log})
	if err != nil {
		return err
	}
	d.st = st
	d.sampler.st = st
	d.client = mirror.Client(cfg, d.o.Build.Version, d.o.Log)
	d.engine = &syncengine.Engine{Store: st, Log: d.o.Log, Holder: mirror.Holder("resyncd serve", d.o.Now()),
		Now: d.o.Now}
	if err := errors.Join(d.hubs.load(ctx), d.loadSources(ctx)); err != nil {
		return err
	}
	d.keeper = subscribe.New(subscribe.Options{
		Store: st, Send: d.client.Send, Callback: func(token string) string { return d.listeners.base + "/" + token },
		Now: d.o.Now, Log: d.o.Log, Rediscover: d.rediscover,
		Changed: func(sub store.Subscription) {
			d.listeners.behind.Load().Changed(sub)
			d.hubs.changed(&sub)
		},
	})
	door := callback.New(d.callbackOptions(cfg))
	// Hubs may verify while they are being asked, so who answers them comes before who asks (S-23).
	d.parts.tools = append(d.parts.tools, d.parts.start(ctx, "keep deliveries", door.Run))
	door.SetReady(true)
	d.listeners.behind.Store(door)
	if err := errors.Join(d.hubs.unsubscribeRemoved(ctx), d.hubs.checkBase(ctx, d.listeners.base)); err != nil {
		return err
	}
	d.parts.tools = append(d.parts.tools,
		d.parts.start(ctx, "keep leases", d.keeper.Run),
		d.parts.start(ctx, "write the history", d.sample), d.parts.start(ctx, "keep the overview", d.board.keep))
	d.parts.works = append(d.parts.works,
		d.parts.start(ctx, "run jobs", func(ctx context.Context) error { return d.jobs.Run(ctx, d.work) }),
		d.parts.start(ctx, "take requests", d.operator.serve),
		d.parts.start(ctx, "watch hubs", d.hubs.watch),
		d.parts.start(ctx, "keep house", d.maintain),
		d.parts.start(ctx, "scrub", d.scrub))
	d.startSources(ctx, cfg.Sources)
	return nil
}

// end stops accepting first, then work, then the Sources, then what they stand on.
func (d *Daemon) end() (err error) {
	endAll(d.listeners.parts)
	endAll(d.parts.works)
	d.operator.server.Under.Wait()
	d.endSources()
	endAll(d.parts.tools)
	if d.client != nil {
		d.client.Close()
	}
	if d.st != nil {
		err = d.st.Close()
	}
	if d.unlock != nil {
		err = errors.Join(err, d.unlock())
	}
	return err
}

// parts are what of a daemon runs by itself until it is ended. The first that fails ends the daemon.
type parts struct {
	log    *slog.Logger
	works  []*part    // in which work is done for Sources
	tools  []*part    // on which they stand
	failed chan error // the first failure
}

type part struct {
	stop context.CancelFunc
	done chan struct{}
}

// start starts one. It ends when it is told to, not with ctx: the order in which things end matters.
func (p *parts) start(ctx context.Context, name string, run func(context.Context) error) *part {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	one := &part{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(one.done)
		if err := p.guarded(func() error { return run(ctx) }); err != nil && ctx.Err() == nil {
			offer(p.failed, fmt.Errorf("%s: %w", name, err)) // the first one counts
		}
	}()
	return one
}

// every has work done after each pause, until ctx ends or it fails.
func every(ctx context.Context, pause time.Duration, work func() error) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := work(); err != nil {
			return err
		}
	}
}

// offer sends where there is room.
func offer[T any](to chan<- T, what T) bool {
	select {
	case to <- what:
		return true
	default:
		return false
	}
}

// endAll ends parts that need not wait for each other.
func endAll(all []*part) {
	for _, p := range all {
		p.stop()
	}
	for _, p := range all {
		<-p.done
	}
}

// guarded is safe.Do for work beside the queue. Where it panicked is in the log only.
func (p *parts) guarded(work func() error) error {
	var told error
	err := safe.Do(func() error {
		told = work()
		return told
	})
	if told == nil { // else whoever recovered it has logged it
		p.logPanic(err)
	}
	return err
}

// logPanic writes where work panicked, if that is why it failed.
func (p *parts) logPanic(err error) {
	if e, ok := errors.AsType[*safe.PanicError](err); ok {
		p.log.Error("panic, which costs no other work; please report it", "panic", e.Value, "stack", string(e.Stack))
	}
}

// lockWithin is how long a daemon waits for one that is just ending: it may be writing its last bytes.
const lockWithin = 2 * time.Second

// lockName is the file in data_dir that a daemon locks.
const lockName = "serve.lock"

// lockData takes data_dir for this daemon, so that no second one keeps the same leases and takes the same requests. The
// lock ends with the process, whatever kills it; release ends it before.
func lockData(ctx context.Context, dir string) (release func() error, err error) {
	if err := sqlite.MakeFolder(dir); err != nil {
		return nil, fmt.Errorf("make data_dir: %w", err)
	}
	// Opened for writing, without which a lock on NFS is refused.
	lock := flock.New(filepath.Join(dir, lockName), flock.SetFlag(os.O_CREATE|os.O_RDWR))
	within, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	free, err := lock.TryLockContext(within, lookEvery)
	switch {
	case free:
		return lock.Unlock, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &exit.Error{Code: exit.Held, Err: fmt.Errorf("another `resyncd serve` works on data_dir %s: stop "+
			"it, or give this one a data_dir of its own", dir)}
	}
	return nil, fmt.Errorf("lock data_dir %s: %w", dir, err)
}

// orHeld is a failure to listen, unless another daemon works on data_dir: then it has the addresses too, and other ones
// would help nobody. Where none ever did, nothing is made.
func orHeld(ctx context.Context, dir string, err error) error {
	if _, ok := errors.AsType[*net.OpError](err); !ok {
		return err
	}
	if _, absent := os.Stat(filepath.Join(dir, lockName)); absent != nil {
		return err
	}
	release, held := lockData(ctx, dir)
	var other *exit.Error
	switch {
	case held == nil:
		return errors.Join(err, release())
	case errors.As(held, &other):
		return held
	}
	return err
}

// manager is the service manager that started us (systemd, Type=notify or notify-reload), if one did: the environment
// says where it listens.
type manager struct {
	every time.Duration // how often it wants a sign of life, 0: never
	log   *slog.Logger
	last  time.Time // of the last sign of life
}

func newManager(log *slog.Logger) *manager {
	within, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the watchdog of the service manager cannot be served", logging.Err(err))
	}
	return &manager{every: within / 2, log: log}
}

func (m *manager) tell(state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		m.log.Warn("the service manager cannot be told", logging.Err(err))
	}
}

func (m *manager) ready(status string) { m.tell(systemd.SdNotifyReady + "\nSTATUS=" + status) }

// reloading names the instant by the clock by which the service manager orders reloads.
func (m *manager) reloading() {
	m.tell(systemd.SdNotifyReloading + "\n" + systemd.SdNotifyMonotonicUsec())
}

func (m *manager) stopping() { m.tell(systemd.SdNotifyStopping) }

// alive is a sign of life, sent where one is due at now.
func (m *manager) alive(now time.Time) {
	if m.every > 0 && now.Sub(m.last) >= m.every {
		m.last = now
		m.tell(systemd.SdNotifyWatchdog)
	}
}
