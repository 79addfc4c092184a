package main

import (
	"errors"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/config"
)

// flagKeys are the flags that stand for a key of the configuration, and win over it (contract.md 2).
var flagKeys = []struct{ flag, key string }{
	{"delete", "defaults.delete"},
	{"concurrency", "defaults.concurrency"},
	{"retry-for", "network.retry_for"},
	{"idle-timeout", "network.idle_timeout"},
}

// config loads the configuration file that flag, environment and the usual places lead to; none is fine.
func (sh *shell) config(c *cli.Context) (*config.Config, error) {
	path, err := config.Find(c.String("config"), sh.env)
	if err != nil {
		return nil, usage("%w", err)
	}
	return sh.load(c, path)
}

// named loads the configuration for a Source that is not configured: only a file that was named counts.
func (sh *shell) named(c *cli.Context) (*config.Config, error) {
	return sh.load(c, config.Named(c.String("config"), sh.env))
}

// load is the effective configuration: the file at path ("" is none), variables, flags. Whatever is wrong with it is
// exit code 2.
func (sh *shell) load(c *cli.Context, path string) (*config.Config, error) {
	cfg, err := config.Load(path, sh.env)
	var bad *config.Error
	switch {
	case errors.As(err, &bad): // it says of each problem what may stand there
		return nil, usage("%w", err)
	case err != nil:
		return nil, usage("%w; name another file with --config, or write one with `resyncd config init`", err)
	}
	if err := overrule(c, cfg); err != nil {
		return nil, usage("%w", err)
	}
	for _, w := range cfg.Warnings {
		if !sh.warned[w] {
			sh.warned[w] = true
			sh.say("warning: %s", w)
		}
	}
	return cfg, nil
}

// overrule lets the flags that were given win, and tells all that are wrong at once.
func overrule(c *cli.Context, cfg *config.Config) error {
	var wrong []config.Problem
	for _, f := range flagKeys {
		if !c.IsSet(f.flag) {
			continue
		}
		err := cfg.Set(f.key, c.String(f.flag), "--"+f.flag)
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
