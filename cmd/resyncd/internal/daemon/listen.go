package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"resyncd/callback"
	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/destination"
	"resyncd/destination/subscribe"
	"resyncd/store"
	"resyncd/store/blob"
	syncengine "resyncd/sync"
	"resyncd/sync/coverage"
	"resyncd/sync/queue"
)

// listeners answer from the start; until there is something behind them, with 503.
type listeners struct {
	base   string                 // of callback URLs, without a slash at the end
	certs  *callback.Certificates // of the callback listener, nil without TLS
	behind atomic.Pointer[callback.Callback]
	parts  []*part
}

// ServeHTTP implements http.Handler for the callback listener.
func (o *listeners) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c := o.behind.Load(); c != nil {
		c.ServeHTTP(w, r)
		return
	}
	// Never a 404 or 410 during the start: hubs end subscriptions over these (S-68).
	w.Header().Set("Retry-After", "5")
	http.Error(w, "starting", http.StatusServiceUnavailable)
}

// isOpen reports that the store is open, and hubs are answered.
func (o *listeners) isOpen() bool { return o.behind.Load() != nil }

// listen opens the listeners and says where they are.
func (d *Daemon) listen(ctx context.Context) error {
	cfg := d.sources.config().Callback
	if cfg.TLSCertFile != "" {
		var err error
		if d.listeners.certs, err = callback.LoadCertificates(cfg.TLSCertFile, cfg.TLSKeyFile, d.o.Log); err != nil {
			return err
		}
	}
	l, err := callback.Listen(cfg.Listen)
	if err != nil {
		return fmt.Errorf("%w; another process may have it: choose another callback.listen", err)
	}
	d.listeners.base = baseAt(cfg.BaseURL, l.Addr())
	d.listeners.parts = append(d.listeners.parts, d.parts.start(ctx, "answer hubs", func(ctx context.Context) error {
		return callback.Serve(ctx, callback.ServerOptions{Listener: l, Handler: &d.listeners, TLS: d.listeners.certs,
			Log: d.o.Log})
	}))
	where, err := d.listenConsole(ctx)
	if err != nil {
		return err
	}
	announce := d.o.Announce
	if announce == nil {
		announce = d.introduce
	}
	return announce(l.Addr().String(), where)
}

// listenConsole opens the console's listener, "" where it is switched off.
func (d *Daemon) listenConsole(ctx context.Context) (string, error) {
	addr := d.sources.config().Console.Listen
	if addr == "" {
		return "", nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", fmt.Errorf("listen for the console: %w; another process may have it: choose another "+
			"console.listen, or \"\" to do without", err)
	}
	handler := console.New(d.consoleOptions())
	d.listeners.parts = append(d.listeners.parts, d.parts.start(ctx, "answer the console",
		func(ctx context.Context) error {
			return console.Serve(ctx, l, handler, d.o.Log)
		}))
	return l.Addr().String(), nil
}

// introduce prints one line for each listener and Source.
func (d *Daemon) introduce(callbackAt, consoleAt string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "callback %s listens on %s\n", d.listeners.base, callbackAt)
	if consoleAt != "" {
		fmt.Fprintf(&b, "console  http://%s/ listens on %s\n", consoleAt, consoleAt)
	}
	for _, s := range d.sources.config().Sources {
		fmt.Fprintf(&b, "source   %s  %s\n", s.Name, logging.Redact(s.URL))
	}
	_, err := io.WriteString(d.o.Out, b.String())
	return err
}

// baseAt is the base URL of callbacks without a slash at its end; its port 0 is the one that was given to the listener.
func baseAt(base string, addr net.Addr) string {
	base = strings.TrimRight(base, "/")
	u, err := url.Parse(base)
	if err != nil || u.Port() != "0" {
		return base
	}
	if _, port, err := net.SplitHostPort(addr.String()); err == nil {
		u.Host = net.JoinHostPort(u.Hostname(), port)
	}
	return u.String()
}

// patience is how long the fetches of a pull may go on before it is called ended, the rest being owed.
const patience = time.Hour

// callbackOptions ties the callback server to store, keeper and Followers.
func (d *Daemon) callbackOptions(cfg *config.Config) callback.Options {
	path := ""
	if u, err := url.Parse(d.listeners.base); err == nil {
		path = u.EscapedPath()
	}
	return callback.Options{
		Store: d.st, Keeper: d.keeper, BasePath: path, MaxBody: int64(cfg.Callback.MaxBody),
		Now: d.o.Now, Log: d.o.Log,
		Wake: d.delivered, Weakest: d.sources.weakestOf,
		TooLarge: d.hint, Doubtful: d.hint,
		Moved: func(sub store.Subscription, _ string) {
			if r := d.sources.of(sub.SourceID); r != nil {
				r.rediscover()
			}
		},
		Observe: callback.Observer{
			Delivered: func(source int64, duplicate bool) {
				if duplicate { // the engine never meets it
					d.metrics.Count(console.Notifications, d.sources.nameOf(source), string(coverage.Stale), 1)
				}
				d.board.changed(d.sources.nameOf(source))
				d.hubs.delivered(source)
			},
			Rejected: func(source int64, reason string) {
				d.metrics.Count(console.Rejections, d.sources.nameOf(source), reason, 1)
				if r := d.sources.of(source); r != nil {
					r.seen.note(func() { r.seen.rejected, r.seen.rejectedAt = reason, d.o.Now() })
					d.board.changed(r.name)
				}
			},
			Acknowledged: func(source int64, took time.Duration) {
				d.metrics.Observe(console.Acknowledgement, d.sources.nameOf(source), took)
			},
			Failed: d.stateFailed,
		},
	}
}

// delivered has what came into a Source's inbox taken up: by a job of its own or, should another one of the Source be
// waiting for a document, within that wait.
func (d *Daemon) delivered(id int64) {
	d.jobs.put(id, queue.KindNotify, time.Time{})
	if s := d.sources.runOf(id); s != nil {
		s.f.Heard()
	}
}

// rediscover is the keeper's way to what a set offers now.
func (d *Daemon) rediscover(ctx context.Context, id, _ int64) error {
	s := d.sources.runOf(id)
	if s == nil {
		return errors.New("nobody follows the Source just now")
	}
	ctx, cancel := until(ctx, s.ending)
	defer cancel()
	return s.f.Rediscover(ctx)
}

// hint has a set pulled soon, because of a notification that could not be taken.
func (d *Daemon) hint(source, set int64) {
	if s := d.sources.runOf(source); s != nil {
		s.f.Hint(set)
	}
}

// offered passes on which channels discovery found, and warns where their hubs cannot reach us.
func (r *runner) offered(id int64) func(context.Context, int64, []destination.Channel) {
	return func(ctx context.Context, set int64, found []destination.Channel) {
		for i := range found {
			r.warnUnreachable(found[i].Hubs)
		}
		if err := r.d.keeper.SetChannels(ctx, id, set, found); err != nil && ctx.Err() == nil {
			r.d.o.Log.Error("the channels of a set cannot be recorded; the next read does it", logging.KeySource,
				r.name, logging.Err(err))
		}
	}
}

// warnUnreachable tells once for each Source that a hub on another machine cannot deliver to a loopback address.
func (r *runner) warnUnreachable(hubs []string) {
	if !config.Loopback(r.d.listeners.base) || r.src.Load().Push == config.PushOff {
		return
	}
	away := slices.IndexFunc(hubs, func(hub string) bool { return !config.Loopback(hub) })
	if away >= 0 && !r.warned.Swap(true) {
		r.d.o.Log.Warn("a hub on another machine cannot deliver: callback.base_url leads to this machine only",
			logging.KeySource, r.name, logging.KeyHub, logging.URL(hubs[away]))
	}
}

// followOptions tie a Follower to queue, keeper and whoever watches.
func (r *runner) followOptions(id int64) syncengine.FollowOptions {
	src := r.src.Load()
	return syncengine.FollowOptions{
		ReorderGrace: src.ReorderGrace, Poll: pauseOf(src.Schedule, r.d.o.Now()), Patience: patience,
		Later:      func(w syncengine.Work, due time.Time) { r.d.jobs.put(id, queue.Kind(w), due) },
		Offered:    r.offered(id),
		Subscribed: r.d.hubs.since(id),
		Observe:    r.observer(id),
	}
}

// plan is what the keeper has to know of a Source.
func plan(src *config.Source) subscribe.Plan {
	return subscribe.Plan{
		Name: src.Name, Push: src.Push != config.PushOff, Lease: src.Lease, Secret: src.Secret != config.SecretOff,
		Policy: mirror.PolicyOf(src), HubOverride: src.Hub, TopicOverride: src.Topic,
	}
}

// readyAge is how long an answer to /readyz stands: anybody may ask, so the disks are tried now and then only.
const readyAge = 5 * time.Second

// readiness answers /readyz: the store is open, the callback listens, the disks of the state and of the mirrors can be
// written.
func (d *Daemon) readiness() func(context.Context) error {
	var mu sync.Mutex
	var tried time.Time
	var failed error
	return func(context.Context) error {
		if !d.listeners.isOpen() {
			return errStarting
		}
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(tried) >= readyAge {
			tried, failed = now, writableDisks(d.sources.config())
		}
		return failed
	}
}

// writableDisks tries the folder of the state and that of each mirror, which may be a disk of its own; a mirror that is
// not there yet, or whose disk is not mounted, is told elsewhere.
func writableDisks(cfg *config.Config) error {
	if err := writable(cfg.DataDir); err != nil {
		return fmt.Errorf("the disk of the state cannot be written: %w", err)
	}
	for i := range cfg.Sources {
		err := writable(filepath.Join(cfg.Mirror, cfg.Sources[i].Name, blob.Reserved))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the disk of the mirror cannot be written: %w", err)
		}
	}
	return nil
}

// writable writes a little into a folder and takes it away again.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".ready-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, mirror.LeastRoom))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}
