package mirror

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/store/blob"
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
func (op *Opener) Places(names []string) ([]Place, error) {
	if len(names) > 0 {
		out := make([]Place, len(names))
		for i, name := range names {
			p, err := op.Place(name)
			if err != nil {
				return nil, err
			}
			out[i] = p
		}
		return out, nil
	}
	cfg, err := op.Config()
	if err != nil {
		return nil, err
	}
	if len(cfg.Sources) == 0 {
		return nil, exit.Usage("%w", ErrNoSources)
	}
	out := make([]Place, len(cfg.Sources))
	for i, s := range cfg.Sources {
		out[i] = Configured(cfg, s)
	}
	return out, nil
}

// Place resolves one NAME: a path is a mirror folder, a word a configured Source or else a folder here that holds
// `.resyncd`. The mirror of a configured Source may lie here too.
func (op *Opener) Place(name string) (Place, error) {
	if isPath(name) {
		return op.Adhoc(name, "")
	}
	cfg, err := op.Config()
	if err != nil {
		return Place{}, err
	}
	s, isSource := cfg.Source(name)
	switch isMirror := holdsReserved(name); {
	case isSource && isMirror && exists(filepath.Join(name, blob.Reserved, StateFile)):
		op.Say("%s is taken for the configured Source of that name; write .%c%s for the folder", name,
			filepath.Separator, name)
		return Configured(cfg, s), nil
	case isSource:
		return Configured(cfg, s), nil
	case isMirror:
		return op.Adhoc(name, "")
	}
	return Place{}, exit.Usage("%s is neither a configured Source nor a folder with a mirror in it; see `resyncd "+
		"status`, or `resyncd config check`", name)
}

func isPath(name string) bool {
	return strings.ContainsRune(name, filepath.Separator) || strings.ContainsRune(name, '/') || name == "." ||
		name == ".."
}

func holdsReserved(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, blob.Reserved))
	return err == nil && info.IsDir()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Configured is the place of a Source of the configuration.
func Configured(cfg *config.Config, s config.Source) Place {
	return Place{
		Config: cfg, Source: s, Root: filepath.Join(cfg.Mirror, s.Name), State: filepath.Join(cfg.DataDir, StateFile),
	}
}

// Adhoc is the place of a `sync URL DIR` mirror; rawURL is "" where the state has to know it.
func (op *Opener) Adhoc(root, rawURL string) (Place, error) {
	cfg, err := op.named()
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

// overruling are the flags that win over a key of the configuration (contract.md 2).
var overruling = []struct{ flag, key string }{
	{"concurrency", "defaults.concurrency"}, {"delete", "defaults.delete"},
	{"idle-timeout", "network.idle_timeout"}, {"retry-for", "network.retry_for"},
}

// Settings lead to the configuration that a command goes by.
type Settings struct {
	File    string // "" for none
	Environ []string
	Flag    func(name string) (value string, given bool)
	Warn    func(string)
}

// Config loads the configuration file, if there is one.
func (s *Settings) Config() (*config.Config, error) {
	path, err := config.Find(s.File, s.Environ)
	if err != nil {
		return nil, exit.Usage("%w", err)
	}
	return s.load(path)
}

// named loads only a file that was named, for a Source that is not configured.
func (s *Settings) named() (*config.Config, error) {
	return s.load(config.Named(s.File, s.Environ))
}

// load is the effective configuration: file, variables, flags. Whatever is wrong is exit code 2.
func (s *Settings) load(path string) (*config.Config, error) {
	cfg, err := config.Load(path, s.Environ)
	var bad *config.Error
	switch {
	case errors.As(err, &bad):
		return nil, exit.Usage("%w", err)
	case err != nil:
		return nil, exit.Usage("%w; name another file with --config, or write one with `resyncd config init`", err)
	}
	if err := s.overrule(cfg); err != nil {
		return nil, exit.Usage("%w", err)
	}
	for _, w := range cfg.Warnings {
		s.Warn(w)
	}
	return cfg, nil
}

// overrule lets flags win, and tells all that are wrong at once.
func (s *Settings) overrule(cfg *config.Config) error {
	var wrong []config.Problem
	for _, o := range overruling {
		value, given := s.Flag(o.flag)
		if !given {
			continue
		}
		err := cfg.Set(o.key, value, "--"+o.flag)
		var bad *config.Error
		if errors.As(err, &bad) {
			wrong = append(wrong, bad.Problems...)
		} else if err != nil {
			return err
		}
	}
	if len(wrong) > 0 {
		return &config.Error{Problems: wrong}
	}
	return nil
}
