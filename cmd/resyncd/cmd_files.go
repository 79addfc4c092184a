package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store/sqlite"
)

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
