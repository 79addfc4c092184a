// Package daemon knows how configured Sources are followed for as long as a process runs: it ties engine, keeper,
// callback, queue and console together. It refuses to know how any of them works, and who started it.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"resyncd/callback"
	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/destination/fetch"
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
	d.manager.ready(fmt.Sprintf("%d Sources", len(d.sources.config().Sources)))
	return d.wait(ctx, reload)
}

func (d *Daemon) wait(ctx context.Context, reload <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			d.o.Log.Info("stopping")
			return nil
		case err := <-d.parts.failed:
			return err
		case <-reload:
			d.manager.reloading()
			d.reload(ctx)
			d.manager.ready(fmt.Sprintf("%d Sources", len(d.sources.config().Sources)))
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
		Now: d.o.Now, Log: d.o.Log, Rediscover: d.rediscover, Changed: d.subscriptionChanged,
	})
	door := callback.New(d.callbackOptions(cfg))
	// Hubs may verify while they are being asked, so who answers them comes before who asks (S-23).
	d.parts.tools = append(d.parts.tools, d.parts.start(ctx, "keep deliveries", door.Run))
	door.SetReady(true)
	d.listeners.open(door)
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
