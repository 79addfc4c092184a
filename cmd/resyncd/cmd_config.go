package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/exit"
)

// starterFile is what `config init` writes where no file is named.
const starterFile = "resyncd.yaml"

func (sh *shell) configCommand() *cli.Command {
	check := sh.command("config check", 0, 0, &cli.Command{
		Name: "check", Usage: "validate the configuration: everything wrong at once, with lines",
		Description: about("", codesHere, "resyncd config check --config ./resyncd.yaml"),
		Action: func(c *cli.Context) error {
			cfg, err := sh.config(c)
			if err != nil {
				return err
			}
			path, err := config.Find(c.String("config"), sh.Environ)
			if path == "" {
				path = "defaults (no configuration file was found)"
			}
			if err == nil {
				_, err = fmt.Fprintf(sh.Out, "ok: %s, Sources: %d\n", path, len(cfg.Sources))
			}
			return err
		},
	})
	show := sh.command("config print", 0, 0, &cli.Command{
		Name: "print", Usage: "print the effective configuration, secrets hidden",
		Description: about("", codesHere, "resyncd config print > effective.yaml"),
		Action: func(c *cli.Context) error {
			cfg, err := sh.config(c)
			if err != nil {
				return err
			}
			return cfg.Print(sh.Out)
		},
	})
	begin := sh.command("config init [FILE]", 0, 1, &cli.Command{
		Name: "init", Usage: "write a commented starter file", ArgsUsage: "[FILE]",
		Description: about("Asks nothing: every key is in it, explained, with its default. FILE is ./"+starterFile+
			" unless it is named here or by\n"+
			"--config. A file that exists is never overwritten.", codesHere, "resyncd config init",
			"resyncd config init /etc/resyncd/resyncd.yaml"),
		Action: func(c *cli.Context) error {
			return sh.configInit(cmp.Or(c.Args().First(), c.String("config"), starterFile))
		},
	})
	return sh.group("config", "check, print or begin a configuration", "resyncd config init", check, show, begin)
}

// configInit writes the starter and never overwrites a file.
func (sh *shell) configInit(path string) error {
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
