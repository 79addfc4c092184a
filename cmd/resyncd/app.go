package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/control"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
)

// shell is one invocation of the command line.
type shell struct {
	*term.Env
	args   []string
	log    *slog.Logger    // of the command, once its flags are read
	warned map[string]bool // warnings told already
}

// run carries out one command line and returns its exit code. It must not be called twice at a time within a process:
// urfave/cli has state of its own.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	sh := &shell{Env: term.NewEnv(env, stdout, stderr), args: args, warned: map[string]bool{}}
	err := sh.app().RunContext(ctx, args)
	code := exit.Code(ctx, err)
	var left *control.LeftError
	switch {
	case err == nil || err.Error() == "":
	case errors.As(err, &left):
		sh.Say("%s", left.Error())
	case code == exit.Interrupted:
		sh.Say("interrupted; the state is consistent, run the command again to go on")
	default:
		sh.Say("%s", exit.Advised(err))
	}
	return code
}

func (sh *shell) app() *cli.App {
	return &cli.App{
		Name:  "resyncd",
		Usage: "keep an exact local mirror of ResourceSync Sources",
		Description: about("resyncd finds what a Source offers, mirrors it, and afterwards fetches only what changed: "+
			"moments after it changed where the Source has a hub, by schedule everywhere else. `resyncd help COMMAND` "+
			"tells more of each command.\n\nPages of the manual, shown by `resyncd help TOPIC`: "+
			strings.Join(topics, ", ")+".", codesAll,
			"resyncd demo",
			"resyncd sync https://lib.example/ ./mirror",
			"resyncd serve --config /etc/resyncd/resyncd.yaml"),
		HideVersion: true, DisableSliceFlagSeparator: true,
		EnableBashCompletion: true, BashComplete: sh.offer,
		Flags:  []cli.Flag{cli.HelpFlag}, // the library adds it only together with a help command of its own
		Writer: sh.Out, ErrWriter: sh.Err,
		ExitErrHandler: func(*cli.Context, error) {}, // exit codes are ours (dependencies.md 3.4)
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return exit.Usage("%w; see `resyncd help`", err)
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknown("resyncd", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		Commands: []*cli.Command{
			sh.syncCommand(), sh.serveCommand(), sh.discoverCommand(), sh.auditCommand(), sh.verifyCommand(),
			sh.statusCommand(), sh.lsCommand(), sh.catCommand(), sh.approveCommand(), sh.restoreCommand(),
			sh.historyCommand(), sh.subscriptionCommand(), sh.sourceCommand(), sh.configCommand(), sh.backupCommand(),
			sh.demoCommand(), sh.healthcheckCommand(), sh.manCommand(), sh.completionCommand(), sh.versionCommand(),
			sh.helpCommand(),
		},
	}
}

func unknown(parent, given string) error {
	return exit.Usage("there is no command `%s %s`; see `%s --help`", parent, given, parent)
}

// group makes a command that only holds others.
func (sh *shell) group(name, text, example string, commands ...*cli.Command) *cli.Command {
	return &cli.Command{
		Name: name, Usage: text, Description: about("", codesAll, example), Subcommands: commands,
		HideHelpCommand: true,
		OnUsageError:    usageError,
		BashComplete:    sh.offer,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknown("resyncd "+name, c.Args().First())
			}
			names := make([]string, len(commands))
			for i := range commands {
				names[i] = commands[i].Name
			}
			return exit.Usage("usage: resyncd %s %s; see `resyncd %s --help`", name, strings.Join(names, "|"), name)
		},
	}
}

// command adds to a command what all have: the common flags, and a look at the arguments, of which there are least to
// most (any number where most < 0), as form says. The flags named in trailing may stand behind an argument too; the
// command sees them there. urfave/cli would silently take `sync src --dry-run` for a real run, and a Source called
// `help` for a request for help.
func (sh *shell) command(form string, least, most int, c *cli.Command, trailing ...string) *cli.Command {
	c.Flags = append(c.Flags,
		&cli.StringFlag{Name: "config", Usage: "configuration `FILE`",
			DefaultText: "$RESYNCD_CONFIG, then ./resyncd.yaml, then /etc/resyncd/resyncd.yaml"},
		&cli.StringFlag{Name: "log-level", Value: "info", Usage: "`LEVEL`: debug, info, warn or error"},
		&cli.StringFlag{Name: "log-format", Value: "text", Usage: "`FORMAT`: text or json"},
		boolFlag("quiet", "no progress on stderr"),
	)
	c.HideHelpCommand = true
	c.OnUsageError = usageError
	c.BashComplete = sh.offer
	action := c.Action
	c.Action = func(ctx *cli.Context) error {
		name := ctx.Command.HelpName
		for i, a := range ctx.Args().Slice() {
			switch {
			case i > 0 && slices.Contains(trailing, a):
			case strings.HasPrefix(a, "-") && i > 0:
				return exit.Usage("%[1]q stands after an argument: flags come before arguments, as in `%[2]s %[1]s …`",
					a, name)
			case strings.HasPrefix(a, "-"):
				return exit.Usage("%q is no argument of `%s`: arguments do not begin with - (a folder of that "+
					"name is ./%s)", a, name, a)
			case a == "":
				return exit.Usage("argument %d of `%s` is empty: is a variable of your script not set?", i+1, name)
			}
		}
		log, err := sh.logger(ctx)
		if err != nil {
			return err
		}
		sh.log = log
		if err := args(ctx, least, most, form); err != nil {
			return err
		}
		return action(ctx)
	}
	return c
}

func usageError(c *cli.Context, err error, _ bool) error {
	return exit.Usage("%w; see `%s --help`", err, c.Command.HelpName)
}

func boolFlag(name, text string) *cli.BoolFlag {
	return &cli.BoolFlag{Name: name, Usage: text, DisableDefaultText: true}
}

// logger is the log of a command, on stderr: never mixed with results.
func (sh *shell) logger(c *cli.Context) (*slog.Logger, error) {
	level, err := logging.ParseLevel(c.String("log-level"))
	if err != nil {
		return nil, exit.Usage("--log-level: %w", err)
	}
	format, err := logging.ParseFormat(c.String("log-format"))
	if err != nil {
		return nil, exit.Usage("--log-format: %w", err)
	}
	return logging.New(sh.Err, format, level, sh.CanRedraw()), nil // a dumb terminal is no better than a file
}

// args insists on a number of arguments; most < 0 is any number.
func args(c *cli.Context, least, most int, form string) error {
	if n := c.NArg(); n < least || most >= 0 && n > most {
		return exit.Usage("usage: resyncd %s; see `%s --help`", form, c.Command.HelpName)
	}
	return nil
}

// settings are what command line and environment say of the configuration.
func (sh *shell) settings(c *cli.Context) *mirror.Settings {
	flag := func(name string) (string, bool) { return c.String(name), c.IsSet(name) }
	return &mirror.Settings{File: c.String("config"), Environ: sh.Environ, Flag: flag, Warn: sh.warn}
}

// warn tells of each oddity once.
func (sh *shell) warn(text string) {
	if !sh.warned[text] {
		sh.warned[text] = true
		sh.Say("warning: %s", text)
	}
}

func (sh *shell) config(c *cli.Context) (*config.Config, error) { return sh.settings(c).Config() }

// opener opens mirrors for a command.
func (sh *shell) opener(c *cli.Context) *mirror.Opener {
	return &mirror.Opener{Settings: sh.settings(c), Version: version, Log: sh.log, Now: sh.Now, Say: sh.Say}
}
