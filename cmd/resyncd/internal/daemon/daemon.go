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
	"sync"
	"sync/atomic"
	"time"

	"resyncd/callback"
	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/destination/fetch"
	"resyncd/destination/keeper"
	"resyncd/destination/websub"
	"resyncd/store"
	"resyncd/store/sqlite"
	syncengine "resyncd/sync"
	"resyncd/sync/queue"
	"resyncd/sync/report"
)

// endWithin is how long an orderly end may take (F4); what is not done by then is done again after the next start.
const endWithin = 9 * time.Second

// Daemon is `resyncd serve`: the listeners, the store, and one resident for each configured Source.
type Daemon struct {
	now     func() time.Time
	log     *slog.Logger
	out     io.Writer // of introduce
	build   Build
	manager *manager
	// announce, observe and reread are those of the Options.
	announce func(callback, console string) error
	observe  syncengine.Observer
	reread   func() (*config.Config, error)

	base     string       // of callback URLs, without a slash at the end
	unlock   func() error // of data_dir
	st       store.Store
	client   *fetch.Client
	engine   *syncengine.Engine
	keeper   *keeper.Keeper
	callback *callback.Callback
	queue    *queue.Local
	table    *queue.Timetable
	leases   *leases
	weakest  map[int64]websub.Method // as it was at the start, by Source
	judge    *judge
	pacing   sync.Mutex // held while a Source's pace is decided on and set
	metrics  *console.Metrics
	board    *board
	sampler  *sampler
	orders   *orders
	states   states
	started  time.Time
	doors    doors
	certs    *callback.Certificates // of the callback listener, nil without TLS
	opened   atomic.Bool            // the store is open, and hubs are answered
	untaken  atomic.Bool            // the configuration was invalid when it was last read again

	mu        sync.Mutex
	cfg       *config.Config
	residents map[string]*resident
	byID      map[int64]*resident

	works  []*part    // in which work is done for Sources
	tools  []*part    // on which they stand
	failed chan error // the first failure of a part
	asked  sync.WaitGroup
}

// part is something of the daemon that runs until it is ended.
type part struct {
	stop context.CancelFunc
	done chan struct{}
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
		now: o.Now, log: o.Log, out: o.Out, build: o.Build, cfg: o.Config,
		announce: o.Announce, observe: o.Observe, reread: o.Reread, manager: newManager(o.Log), failed: make(chan error, 1),
		metrics: console.NewMetrics(), sampler: newSampler(o.Now), orders: newOrders(), started: o.Now(),
		residents: map[string]*resident{}, byID: map[int64]*resident{},
	}
	d.board = newBoard(d)
	if d.announce == nil {
		d.announce = d.introduce
	}
	return d
}

// Data is what the console of the daemon shows and does.
func (d *Daemon) Data() console.Data { return &consoleDesk{d} }

// part starts one. It ends when it is told to, not with ctx: the order in which things end matters. A part that fails
// ends the daemon.
func (d *Daemon) part(ctx context.Context, name string, run func(context.Context) error) *part {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		if err := d.guarded(func() error { return run(ctx) }); err != nil && ctx.Err() == nil {
			select {
			case d.failed <- fmt.Errorf("%s: %w", name, err):
			default: // the first one counts
			}
		}
	}()
	return p
}

// Run serves until ctx ends or a part fails; a signal of reload has it read its configuration again. Its end is orderly,
// within endWithin; what still works then is left to the end of the process, which the state bears (F1).
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
			d.log.Error("the end was not orderly; the state bears that", logging.Err(stopped))
		}
		return nil
	case <-time.After(endWithin):
		d.log.Error("stopped hard: something did not end in time; the state is consistent, the next start goes on")
		return err
	}
}

// serve opens everything and stays until ctx ends or a part fails.
func (d *Daemon) serve(ctx context.Context, reload <-chan os.Signal) error {
	if err := d.open(ctx); err != nil {
		return err
	}
	d.log.Info("serving", "version", d.build.Version, "sources", len(d.config().Sources))
	d.manager.ready(fmt.Sprintf("%d Sources", len(d.config().Sources)))
	return d.wait(ctx, reload)
}

func (d *Daemon) wait(ctx context.Context, reload <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			d.log.Info("stopping")
			return nil
		case err := <-d.failed:
			return err
		case <-reload:
			d.manager.reloading()
			d.reload(ctx)
			d.manager.ready(fmt.Sprintf("%d Sources", len(d.config().Sources)))
		}
	}
}

// open starts everything: the listeners first, so that hubs get a 503 and not a refused connection while the store opens.
func (d *Daemon) open(ctx context.Context) error {
	cfg := d.config()
	if err := d.listen(ctx); err != nil {
		return orHeld(ctx, cfg.DataDir, err)
	}
	var err error
	if d.unlock, err = lockData(ctx, cfg.DataDir); err != nil {
		return err
	}
	st, err := sqlite.Open(ctx, filepath.Join(cfg.DataDir, mirror.StateFile), sqlite.Options{Log: d.log})
	if err != nil {
		return err
	}
	d.st = st
	d.sampler.st, d.sampler.told = st, d.board.sampled
	d.client = mirror.SharedClient(cfg, d.build.Version, d.log)
	d.engine = &syncengine.Engine{Store: st, Log: d.log, Holder: mirror.Holder("resyncd serve", d.now()), Now: d.now}
	d.leases, d.judge = newLeases(d.now), newJudge()
	if err := errors.Join(d.leases.load(ctx, st), d.states.load(ctx, st), d.knowWeakest(ctx)); err != nil {
		return err
	}
	d.queue = queue.NewLocal(queue.LocalOptions{Now: d.now, Failed: d.jobFailed})
	d.table = queue.NewTimetable(queue.TimetableOptions{Put: d.queue.Put, Now: d.now})
	d.keeper = keeper.New(keeper.Options{
		Store: st, Send: d.client.Send, Callback: func(token string) string { return d.base + "/" + token }, Now: d.now,
		Log: d.log, Rediscover: d.rediscover, Changed: d.subscriptionChanged,
	})
	d.callback = callback.New(d.callbackOptions(cfg))
	// Hubs may verify while they are being asked, so who answers them comes before who asks (S-23).
	d.tools = append(d.tools, d.part(ctx, "keep deliveries", d.callback.Run))
	d.callback.SetReady(true)
	d.doors.open(d.callback)
	d.opened.Store(true)
	if err := errors.Join(d.letGo(ctx), d.rebase(ctx)); err != nil {
		return err
	}
	d.tools = append(d.tools, d.part(ctx, "keep leases", d.keeper.Run), d.part(ctx, "keep the timetable", d.table.Run),
		d.part(ctx, "write the history", d.sample), d.part(ctx, "keep the overview", d.board.keep))
	d.works = append(d.works,
		d.part(ctx, "run jobs", func(ctx context.Context) error { return d.queue.Run(ctx, d.work) }),
		d.part(ctx, "take requests", d.attend),
		d.part(ctx, "carry out what the console asks", d.obey),
		d.part(ctx, "judge hubs", d.judgeHubs),
		d.part(ctx, "keep house", d.tend),
		d.part(ctx, "scrub", d.scrub))
	d.settle(ctx, cfg.Sources)
	return nil
}

// end stops accepting first, then work, then the Sources, then what they stand on.
func (d *Daemon) end() (err error) {
	d.doors.end()
	endAll(d.works)
	d.asked.Wait()
	d.endResidents()
	endAll(d.tools)
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

// endAll ends parts that need not wait for each other.
func endAll(parts []*part) {
	for _, p := range parts {
		p.stop()
	}
	for _, p := range parts {
		<-p.done
	}
}

func (d *Daemon) config() *config.Config {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cfg
}

func (d *Daemon) jobFailed(j queue.Job, failures int, again time.Time, err error) {
	name := "a forgotten Source"
	if r := d.residentOf(j.Source); r != nil {
		name = r.name
		d.metrics.Count(console.JobFailures, name, string(j.Kind), 1)
		d.board.changed(name)
	}
	if ofState(err) {
		d.stateFailed(err)
		// Its disk may be well again long before the queue's own pause is over (F7).
		if soon := d.now().Add(tryAgain); again.After(soon) {
			again = soon
			d.put(j.Source, j.Kind, soon)
		}
	}
	d.logPanic(err)
	level := slog.LevelWarn
	if errors.Is(err, report.ErrNothingYet) { // its Follower has told why
		level = slog.LevelDebug
	}
	d.log.Log(context.Background(), level, "work on a Source failed and is tried again", logging.KeySource, name, logging.KeyJob, string(j.Kind), "failures", failures,
		"again", again, logging.Err(err))
}
