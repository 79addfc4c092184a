package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"resyncd/cmd/internal/companion"
	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/daemon"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/destination/fetch"
	"resyncd/destination/peer/hub"
	"resyncd/destination/peer/hub/hubdb"
	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/store/sqlite"
	syncengine "resyncd/sync"
	"resyncd/sync/report"
)

func (sh *shell) serve() error {
	cfg, err := sh.mirrors.Config()
	if err != nil {
		return err
	}
	if len(cfg.Sources) == 0 {
		sh.Say("warning: no Source is configured; add one and send SIGHUP")
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	return daemon.New(daemon.Options{
		Config: cfg, Log: sh.log, Now: sh.Now, Build: daemon.Build{Version: version, Commit: commit()}, Out: sh.Out,
		Reread: sh.mirrors.Config,
	}).Run(sh.c.Context, hup)
}

func (sh *shell) healthcheck() error {
	cfg, err := sh.mirrors.Config()
	if err != nil {
		return err
	}
	if cfg.Console.Listen == "" {
		return exit.Usage("console.listen is switched off, so there is nothing to ask; give it an address such as " +
			"127.0.0.1:8091")
	}
	path, what := "/readyz", "ready"
	if sh.c.Bool("alive") {
		path, what = "/healthz", "alive"
	}
	host := dialable(cfg.Console.Listen)
	ctx, cancel := context.WithTimeout(sh.c.Context, 5*time.Second) // it may take to say how it is
	defer cancel()
	client := fetch.New(fetch.Options{UserAgent: "resyncd/" + version, Retries: -1})
	defer client.Close()
	answer, err := client.Get(ctx, fetch.Request{URL: "http://" + host + path,
		Policy: &fetch.Policy{Trusted: []string{host}}, MaxBytes: 4 << 10})
	if err != nil {
		return fmt.Errorf("the daemon at %s is not %s: %w; look at its log", host, what, err)
	}
	return errors.Join(answer.Body.Close(), sh.Print("%s\n", what))
}

// dialable is the address at which a listener of this machine is reached: one on all interfaces is so on loopback.
func dialable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "", err == nil && ip.Unmap().IsUnspecified() && ip.Unmap().Is4():
		host = "127.0.0.1"
	case err == nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

// demoSource is the name of the demo's Source.
const demoSource = "demo"

func (sh *shell) demo() (err error) {
	made := source.Synthetic{Resources: sh.c.Int("resources"), Rate: sh.c.Float64("rate"), Seed: 1}
	if sh.c.Duration("for") < 0 {
		return exit.Usage("--for %s: write a time such as 30s", sh.c.Duration("for"))
	}
	if err := (source.Options{Synthetic: &made}).Check(); err != nil {
		return exit.Usage("%w", err)
	}
	dataDir := sh.c.String("dir")
	if dataDir == "" {
		if dataDir, err = os.MkdirTemp("", "resyncd-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dataDir)) }()
	}
	ctx, cancel := context.WithCancel(sh.c.Context)
	defer cancel()
	if d := sh.c.Duration("for"); d > 0 {
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	err = sh.demonstrate(ctx, dataDir, &made)
	if ctx.Err() == nil || err != nil && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return sh.Print("stopped in good order\n")
}

// demonstrate runs Source, hub and daemon until ctx ends.
func (sh *shell) demonstrate(ctx context.Context, dataDir string, made *source.Synthetic) (err error) {
	kept := filepath.Join(dataDir, "demo.json")
	at, err := readDemoPlaces(kept)
	if err != nil {
		return err
	}
	sourceAt, err := listenAgain(ctx, &at.Source)
	if err != nil {
		return err
	}
	defer sourceAt.Close()
	hubAt, err := listenAgain(ctx, &at.Hub)
	if err != nil {
		return err
	}
	defer hubAt.Close()
	sourceURL, hubURL := "http://"+at.Source+"/", "http://"+at.Hub+"/"
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	client := fetch.New(fetch.Options{UserAgent: "resyncd-demo", Allow: []netip.Prefix{loopback}, Log: sh.log})
	defer client.Close()
	src, err := source.New(ctx, source.Options{
		Base: "http://" + at.Source, Synthetic: made, Hashes: []rsdoc.Algorithm{rsdoc.SHA256}, Hub: hubURL,
		Client: client,
	})
	if err != nil {
		return err
	}
	defer src.Close()
	state, err := hubdb.Open(ctx, filepath.Join(dataDir, "hub.db"), sh.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	show := &demoShow{sh: sh, found: map[int64]time.Time{}}
	relay, err := hub.New(hub.Options{Base: hubURL, State: state, Client: client, Log: sh.log, Lose: show.loses})
	if err != nil {
		return err
	}
	cfg := config.Default()
	cfg.DataDir, cfg.Mirror = dataDir, filepath.Join(dataDir, "mirror")
	cfg.Network.Allow = []netip.Prefix{loopback}
	cfg.Callback.Listen, cfg.Callback.BaseURL = at.Callback, "http://"+at.Callback+"/cb"
	cfg.Console.Listen = at.Console
	follow, err := cfg.Adhoc(demoSource, sourceURL)
	if err != nil {
		return err
	}
	cfg.Sources = []config.Source{follow}
	announce := func(callback, console string) error {
		at.Callback, at.Console = callback, console
		err := sh.Print("Source   %s\nHub      %s\nConsole  http://%s/\nMirror   %s\n",
			sourceURL, hubURL, console, filepath.Join(cfg.Mirror, demoSource))
		text, failed := json.Marshal(at)
		if failed == nil {
			failed = os.WriteFile(kept, append(text, '\n'), 0o600)
		}
		return errors.Join(err, failed)
	}
	observe := syncengine.Observer{Mirrored: show.mirrored, Pulled: show.pulled}
	observe.Gap = show.gap
	d := daemon.New(daemon.Options{
		Config: cfg, Log: sh.log, Now: sh.Now, Build: daemon.Build{Version: version, Commit: commit()},
		Announce: announce, Observe: observe,
	})
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return companion.Serve(ctx, src, sourceAt) })
	g.Go(func() error { return companion.Serve(ctx, relay, hubAt) })
	g.Go(func() error { return d.Run(ctx, nil) })
	return g.Wait()
}

// demoPlaces are the addresses of a demo. Its folder keeps them: there its resources have the same names, and leases go
// on.
type demoPlaces struct {
	Source   string `json:"source"`
	Hub      string `json:"hub"`
	Callback string `json:"callback"`
	Console  string `json:"console"`
}

// readDemoPlaces are the addresses that a folder had the last time, or free ones.
func readDemoPlaces(file string) (demoPlaces, error) {
	const free = "127.0.0.1:0"
	at := demoPlaces{Source: free, Hub: free, Callback: free, Console: free}
	kept, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return at, nil
	}
	if err == nil {
		err = json.Unmarshal(kept, &at)
	}
	if err != nil {
		err = fmt.Errorf("read %s: %w; take another --dir", file, err)
	}
	return at, err
}

// listenAgain listens at an address, which it completes.
func listenAgain(ctx context.Context, addr *string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *addr)
	if err != nil {
		return nil, fmt.Errorf("take up %s, where the demo of this folder was, again: %w: end the other demo, or take "+
			"another --dir", *addr, err)
	}
	*addr = l.Addr().String()
	return l, nil
}

// The demo's hub loses each demoLoses-th notification, or one after demoLosesAfter, whatever comes first.
const (
	demoLoses      = 20
	demoLosesAfter = 10 * time.Second
)

// demoShow prints what goes on in the demo, and makes its gaps.
type demoShow struct {
	sh *shell

	mu    sync.Mutex
	since int       // notifications since the last lost one
	lost  time.Time // when that was; zero until the first came through, before which nothing is lost
	found map[int64]time.Time
}

func (s *demoShow) line(format string, args ...any) {
	_ = s.sh.Print(s.sh.Now().UTC().Format("15:04:05.000")+"  "+format+"\n", args...)
}

// loses is the hub's: it loses a Change Notification now and then, always another one than the last.
func (s *demoShow) loses(number int64, attempt int, body []byte) bool {
	if attempt > 0 || !strings.Contains(string(body[:min(len(body), 4096)]), string(rsdoc.KindChangeNotification)) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since++
	now := s.sh.Now()
	if s.lost.IsZero() || s.since < 2 || s.since < demoLoses && now.Sub(s.lost) < demoLosesAfter {
		return false
	}
	s.since, s.lost = 0, now
	s.line("the hub loses notification %d on purpose: a gap", number)
	return true
}

func (s *demoShow) mirrored(m syncengine.Mirrored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost.IsZero() {
		s.lost = s.sh.Now()
	}
	owed := ""
	if m.Owed > 0 {
		owed = fmt.Sprintf(", %d owed", m.Owed)
	}
	s.line("notification  %d changes mirrored%s, %.1f ms after it came  up to %s", m.Changes, owed,
		float64(m.Took.Microseconds())/1000, report.TimeOf(m.Until))
}

func (s *demoShow) gap(g store.Gap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	began, known := s.found[g.ID]
	switch {
	case g.State.Open() && !known:
		s.found[g.ID] = s.sh.Now()
		s.line("gap found     %s to %s", report.TimeOf(g.From), report.TimeOf(g.Until))
	case g.State == store.GapClosed && g.ClosedBy == "":
		delete(s.found, g.ID)
		s.line("no gap        nothing happened in between, or a pull had told of it")
	case g.State == store.GapClosed:
		delete(s.found, g.ID)
		after := ""
		if known {
			after = fmt.Sprintf(" after %.1f s", s.sh.Now().Sub(began).Seconds())
		}
		s.line("gap closed    by %s%s", g.ClosedBy, after)
	}
}

func (s *demoShow) pulled(r syncengine.Result) {
	if r.Kind == "none" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line("%-12s  %d fetched, %d deleted, %d owed, %d requests, %.0f ms  up to %s", r.Kind, r.Fetched, r.Deleted,
		r.Owed, r.Requests, r.Seconds*1000, term.Text(r.Position))
}

func (sh *shell) backup() error {
	p, err := sh.stateOf()
	if err != nil {
		return err
	}
	to := sh.c.Args().Get(sh.c.NArg() - 1)
	if _, err := os.Lstat(to); err == nil {
		return exit.Usage("%s exists; move it away, or name another file", to)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("back up the state: %w", err)
	}
	if err := keepCopy(sh.c.Context, p.State, to); err != nil {
		return p.Absent(err)
	}
	info, err := os.Stat(to)
	if err != nil {
		return err
	}
	return sh.Print("wrote %s (%s)\n", to, term.Bytes(info.Size()))
}

// stateOf is where the state lies that is meant: all configured Sources share one.
func (sh *shell) stateOf() (*mirror.Place, error) {
	if sh.c.NArg() > 1 {
		p, err := sh.mirrors.Place(sh.c.Args().First())
		return &p, err
	}
	cfg, err := sh.mirrors.Config()
	if err != nil {
		return nil, err
	}
	state := filepath.Join(cfg.DataDir, mirror.StateFile)
	if _, err := os.Lstat(state); err != nil {
		return nil, fmt.Errorf("%s is not there, so there is nothing to copy: run `resyncd config print` to see which "+
			"data_dir is meant, or name the DIR of a mirror first", state)
	}
	return &mirror.Place{Config: cfg, State: state}, nil
}

// keepCopy copies a state database so that the copy is there whole and durable, or not at all.
func keepCopy(ctx context.Context, from, to string) error {
	partial := to + ".partial"
	if err := os.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a copy that was killed
		return fmt.Errorf("back up the state: %w", err)
	}
	if err := sqlite.Snapshot(ctx, from, partial); err != nil {
		return err
	}
	err := synced(partial, os.O_RDWR)
	if err == nil {
		err = os.Rename(partial, to)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("back up the state: %w", err), os.Remove(partial))
	}
	if runtime.GOOS == "windows" { // which syncs no folders
		return nil
	}
	if err := synced(filepath.Dir(to), os.O_RDONLY); err != nil {
		return fmt.Errorf("back up the state: %s is written but may not survive a power cut: %w", to, err)
	}
	return nil
}

// synced makes a file or folder durable.
func synced(name string, flag int) error {
	f, err := os.OpenFile(name, flag, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (sh *shell) configCheck() error {
	cfg, err := sh.mirrors.Config()
	if err != nil {
		return err
	}
	path, err := config.Find(sh.c.String("config"), sh.Environ)
	if path == "" {
		path = "defaults (no configuration file was found)"
	}
	if err == nil {
		err = sh.Print("ok: %s, Sources: %d\n", path, len(cfg.Sources))
	}
	return err
}

func (sh *shell) configPrint() error {
	cfg, err := sh.mirrors.Config()
	if err != nil {
		return err
	}
	return cfg.Print(sh.Out)
}

// configInit writes the starter and never overwrites a file.
func (sh *shell) configInit() error {
	path := cmp.Or(sh.c.Args().First(), sh.c.String("config"), "resyncd.yaml")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return exit.Usage("%s exists; move it away, or name another file", path)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(config.Starter())
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return sh.Print("wrote %s: add your Sources, then run `resyncd config check` and `resyncd sync`\n", path)
}
