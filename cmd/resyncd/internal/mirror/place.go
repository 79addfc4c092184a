package mirror

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/destination"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/store/blob/dir"
	"resyncd/sync/report"
)

// Place is where one Source's mirror and state lie.
type Place struct {
	Config *config.Config
	Source config.Source
	Root   string // of the mirror
	State  string
	AdHoc  bool // of `sync URL DIR`: the mirror carries its own state
}

// StateFile is the state database in `data_dir` or in `.resyncd`.
const StateFile = "state.db"

// Label is what messages call the place.
func (p *Place) Label() string {
	if !p.AdHoc {
		return p.Source.Name
	}
	if strings.ContainsRune(p.Root, filepath.Separator) {
		return p.Root
	}
	return "." + string(filepath.Separator) + p.Root
}

// ErrNoSources is for commands that work on all Sources where there is none.
var ErrNoSources = errors.New("no Source is configured: add one to the configuration (`resyncd config init` writes a " +
	"starter), or name the DIR of a `resyncd sync URL DIR` mirror")

// Places resolves NAME arguments; without any, all configured Sources.
func (op *Opener) Places(names []string) (out []Place, err error) {
	for _, name := range names {
		p, err := op.Place(name)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	if len(names) > 0 {
		return out, nil
	}
	cfg, err := op.Config()
	if err == nil && len(cfg.Sources) == 0 {
		err = exit.Usage("%w", ErrNoSources)
	}
	if err != nil {
		return nil, err
	}
	for _, s := range cfg.Sources {
		out = append(out, Configured(cfg, s))
	}
	return out, nil
}

// Place resolves one NAME: a path is a mirror folder, a word a configured Source or else a folder here that holds
// `.resyncd`. The mirror of a configured Source may lie here too.
func (op *Opener) Place(name string) (Place, error) {
	if strings.ContainsAny(name, "/"+string(filepath.Separator)) || name == "." || name == ".." {
		return op.Adhoc(name, "")
	}
	cfg, err := op.Config()
	if err != nil {
		return Place{}, err
	}
	s, isSource := cfg.Source(name)
	reserved, err := os.Stat(filepath.Join(name, blob.Reserved))
	isMirror := err == nil && reserved.IsDir()
	if isSource && isMirror {
		if _, err := os.Lstat(filepath.Join(name, blob.Reserved, StateFile)); err == nil {
			op.Say("%s is taken for the configured Source of that name; write .%c%[1]s for the folder", name,
				filepath.Separator)
		}
	}
	switch {
	case isSource:
		return Configured(cfg, s), nil
	case isMirror:
		return op.Adhoc(name, "")
	}
	return Place{}, exit.Usage("%s is neither a configured Source nor a folder with a mirror in it; see `resyncd "+
		"status`, or `resyncd config check`", name)
}

// Configured is the place of a Source of the configuration.
func Configured(cfg *config.Config, s config.Source) Place {
	return Place{
		Config: cfg, Source: s, Root: filepath.Join(cfg.Mirror, s.Name), State: filepath.Join(cfg.DataDir, StateFile),
	}
}

// Adhoc is the place of a `sync URL DIR` mirror; rawURL is "" where the state has to know it.
func (op *Opener) Adhoc(root, rawURL string) (Place, error) {
	cfg, err := op.load(config.Named(op.File, op.Environ)) // other files are of configured Sources
	if err != nil {
		return Place{}, err
	}
	root = filepath.Clean(root)
	p := Place{Config: cfg, Root: root, State: filepath.Join(root, blob.Reserved, StateFile), AdHoc: true}
	p.Source = config.Source{Kind: config.KindAuto, Policy: cfg.Defaults}
	if rawURL == "" {
		return p, nil
	}
	p.Source, err = cfg.Adhoc(hostOf(rawURL), rawURL)
	if err != nil {
		return p, exit.Usage("the URL %w", err)
	}
	return p, nil
}

// hostOf names the Source of a `sync URL DIR` mirror.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "source"
	}
	return strings.ToLower(u.Host)
}

// Config loads the configuration file, if there is one.
func (op *Opener) Config() (*config.Config, error) {
	path, err := config.Find(op.File, op.Environ)
	if err != nil {
		return nil, exit.Usage("%w", err)
	}
	return op.load(path)
}

// load is the effective configuration: file, variables, flags. Whatever is wrong is exit code 2; each oddity is told
// once.
func (op *Opener) load(path string) (*config.Config, error) {
	cfg, err := config.Load(path, op.Environ, op.Flags...)
	var bad *config.Error
	switch {
	case errors.As(err, &bad):
		return nil, exit.Usage("%w", err)
	case err != nil:
		return nil, exit.Usage("%w; name another file with --config, or write one with `resyncd config init`", err)
	}
	for _, w := range cfg.Warnings {
		if !op.warned[w] {
			op.Say("warning: %s", w)
		}
		if op.warned == nil {
			op.warned = map[string]bool{}
		}
		op.warned[w] = true
	}
	return cfg, nil
}

// StatusView is the JSON of status (contract.md 3).
type StatusView struct {
	Version string                `json:"version"`
	Sources []report.SourceStatus `json:"sources"`
}

// Status reads one Source, and which of its sets are feeds.
func (op *Opener) Status(ctx context.Context, p *Place) (s report.SourceStatus, feeds map[int64]bool, err error) {
	s = report.SourceStatus{Name: p.Source.Name, URL: p.Source.URL, Sets: []report.SetStatus{}}
	o, err := op.OpenKnown(ctx, p, false)
	if errors.Is(err, store.ErrNotFound) && !p.AdHoc {
		return s, nil, nil
	}
	if err != nil {
		return s, nil, err
	}
	s, err = report.StatusOf(ctx, o.Engine.Store, o.Known)
	s.Expect(p.Expectation(op.Now()))
	if err == nil {
		s.Trouble(o.trouble())
	}
	feeds = map[int64]bool{}
	for i := 0; i < len(s.Sets) && err == nil; i++ {
		set := &s.Sets[i]
		feeds[set.ID], err = IsFeed(ctx, o.Engine.Store, o.Source.Kind, o.Known.ID, set.CapabilityList)
	}
	return s, feeds, errors.Join(err, o.Close())
}

// IsFeed tells whether a set is a feed, as configured or as found.
func IsFeed(ctx context.Context, st store.Documents, kind config.Kind, source int64, set string) (bool, error) {
	if kind == config.KindFeed {
		return true, nil
	}
	doc, err := st.Document(ctx, source, set)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return doc.Kind == string(destination.KindFeed), err
}

// trouble says what no row can: the mirror is not where it was (F12), or the state takes no more rows.
func (o *Opened) trouble() string {
	f, err := o.rootState()
	if err == nil && o.Known.RootID != "" && f.state != dir.Marked {
		err = blob.ErrUnmarked
	}
	if err != nil {
		return fmt.Sprintf("mirror %s: %s", o.Root, exit.Advised(err))
	}
	if room, _, err := dir.Room(filepath.Dir(o.State)); err == nil && room < LeastRoom {
		return fmt.Sprintf("state %s: nothing new can be recorded, its disk is full: make room there", o.State)
	}
	return ""
}

// Expectation is what the configuration holds a Source to; nobody pulls an ad hoc mirror by schedule.
func (p *Place) Expectation(now time.Time) report.Expectation {
	e := report.Expectation{Now: now}
	if !p.AdHoc {
		e.Next, e.Push = p.Source.Schedule.Next, p.Source.Push == config.PushRequired
	}
	return e
}

// LeastRoom is the room on a disk below which no transaction is written.
const LeastRoom = 16 << 10
