package main

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/store/blob"
)

// place is where one Source's mirror and state lie.
type place struct {
	cfg    *config.Config
	src    config.Source
	mirror string // root of the Source's mirror
	state  string // state database
	alone  bool   // a `sync URL DIR` mirror: it holds one Source and carries its own state
}

// stateFile is the name of the state database, in `data_dir` or in `.resyncd`.
const stateFile = "state.db"

// label is what the user calls the place, and what commands in messages name.
func (p *place) label() string {
	if !p.alone {
		return p.src.Name
	}
	if strings.ContainsRune(p.mirror, filepath.Separator) {
		return p.mirror
	}
	return "." + string(filepath.Separator) + p.mirror
}

// errNoSources is for commands that work on all Sources where there is none.
var errNoSources = errors.New("no Source is configured: add one to the configuration (`resyncd config init` writes a starter), or name the DIR of a `resyncd sync URL DIR` mirror")

// places resolves NAME arguments: names of configured Sources, or DIRs of `sync URL DIR` mirrors. Without any, all
// configured Sources.
func (sh *shell) places(c *cli.Context, names []string) ([]place, error) {
	if len(names) > 0 {
		out := make([]place, len(names))
		for i, name := range names {
			p, err := sh.place(c, name)
			if err != nil {
				return nil, err
			}
			out[i] = p
		}
		return out, nil
	}
	cfg, err := sh.config(c)
	if err != nil {
		return nil, err
	}
	if len(cfg.Sources) == 0 {
		return nil, usage("%w", errNoSources)
	}
	out := make([]place, len(cfg.Sources))
	for i, s := range cfg.Sources {
		out[i] = configured(cfg, s)
	}
	return out, nil
}

// place resolves one NAME. A path names a mirror folder, a plain word a configured Source or else a folder here that holds
// `.resyncd`: the mirror of a configured Source holds one too and may well lie here.
func (sh *shell) place(c *cli.Context, name string) (place, error) {
	if isPath(name) {
		return sh.alone(c, name, "")
	}
	cfg, err := sh.config(c)
	if err != nil {
		return place{}, err
	}
	s, isSource := cfg.Source(name)
	switch isMirror := holdsReserved(name); {
	case isSource && isMirror && exists(filepath.Join(name, blob.Reserved, stateFile)):
		sh.say("%s is taken for the configured Source of that name; write .%c%s for the folder", name, filepath.Separator, name)
		return configured(cfg, s), nil
	case isSource:
		return configured(cfg, s), nil
	case isMirror:
		return sh.alone(c, name, "")
	}
	return place{}, usage("%s is neither a configured Source nor a folder with a mirror in it; see `resyncd status`, or `resyncd config check`", name)
}

func isPath(name string) bool {
	return strings.ContainsRune(name, filepath.Separator) || strings.ContainsRune(name, '/') || name == "." || name == ".."
}

func holdsReserved(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, blob.Reserved))
	return err == nil && info.IsDir()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func configured(cfg *config.Config, s config.Source) place {
	return place{
		cfg: cfg, src: s, mirror: filepath.Join(cfg.Mirror, s.Name), state: filepath.Join(cfg.DataDir, stateFile),
	}
}

// alone is the place of a `sync URL DIR` mirror; rawURL is "" where the state has to know it.
func (sh *shell) alone(c *cli.Context, root, rawURL string) (place, error) {
	cfg, err := sh.named(c)
	if err != nil {
		return place{}, err
	}
	root = filepath.Clean(root)
	p := place{cfg: cfg, mirror: root, state: filepath.Join(root, blob.Reserved, stateFile), alone: true}
	p.src = config.Source{Kind: config.KindAuto, Policy: cfg.Defaults}
	if rawURL == "" {
		return p, nil
	}
	p.src, err = cfg.Adhoc(hostOf(rawURL), rawURL)
	if err != nil {
		return p, usage("the URL %w", err)
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
