package mirror

import (
	"errors"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/exit"
)

// Settings lead to the configuration that a command goes by.
type Settings struct {
	File    string // "" for none
	Environ []string
	Flags   []config.Flag
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
	cfg, err := config.Load(path, s.Environ, s.Flags...)
	var bad *config.Error
	switch {
	case errors.As(err, &bad):
		return nil, exit.Usage("%w", err)
	case err != nil:
		return nil, exit.Usage("%w; name another file with --config, or write one with `resyncd config init`", err)
	}
	for _, w := range cfg.Warnings {
		s.Warn(w)
	}
	return cfg, nil
}
