package mirror

import (
	"errors"
	"maps"
	"slices"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/exit"
)

// FlagKeys are the flags that win over a key of the configuration (contract.md 2).
func FlagKeys() map[string]string {
	return map[string]string{
		"delete": "defaults.delete", "concurrency": "defaults.concurrency",
		"retry-for": "network.retry_for", "idle-timeout": "network.idle_timeout",
	}
}

// Settings lead to the configuration that a command goes by.
type Settings struct {
	File    string // "" for none
	Environ []string
	Flags   map[string]string // by FlagKeys
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

// Plain is the configuration without the flags that overrule it.
func (s *Settings) Plain() (*config.Config, error) {
	bare := Settings{File: s.File, Environ: s.Environ, Warn: func(string) {}}
	return bare.Config()
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
	keys := FlagKeys()
	for _, flag := range slices.Sorted(maps.Keys(s.Flags)) {
		err := cfg.Set(keys[flag], s.Flags[flag], "--"+flag)
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
