package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/exit"
)

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
		_, err = fmt.Fprintf(sh.Out, "ok: %s, Sources: %d\n", path, len(cfg.Sources))
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
	path := cmp.Or(sh.c.Arg(0), sh.c.String("config"), "resyncd.yaml")
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
	_, err = fmt.Fprintf(sh.Out, "wrote %s: add your Sources, then run `resyncd config check` and `resyncd sync`\n",
		path)
	return err
}
