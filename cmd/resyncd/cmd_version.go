package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"resyncd/store/sqlite"
)

// version and revision are set by release builds (-ldflags "-X main.version=… -X main.revision=…"). Any other build is
// on its way to the newest version of the changelog.
var (
	version  = "0.10.0-dev"
	revision = ""
)

func (sh *shell) versionCommand() *cli.Command {
	return sh.command("version", 0, 0, &cli.Command{
		Name: "version", Usage: "print version, commit, Go and SQLite", Description: about("", codesHere,
			"resyncd version"),
		Action: func(*cli.Context) error {
			_, err := fmt.Fprintf(sh.Out, "resyncd %s\ncommit %s\ngo %s %s/%s\nsqlite %s\n",
				version, commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH, sqlite.Version())
			return err
		},
	})
}

// commit is what a release was made from, else what the build recorded of its checkout.
func commit() string {
	if revision != "" {
		return revision
	}
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}
