package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"resyncd/cmd/resyncd/internal/logging"
)

// shell is what one invocation stands in: where it writes, what it was told by the environment.
type shell struct {
	out    io.Writer // results
	err    io.Writer // messages, log and progress
	screen *screen   // below out and err
	tty    bool      // err is a terminal
	env    []string
	now    func() time.Time
	warned map[string]bool // warnings told already
}

// run carries out one command line and returns its exit code. It must not be called twice at a time within a process:
// urfave/cli has state of its own.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	scr := &screen{w: stderr}
	sh := &shell{
		out: &aside{screen: scr, w: stdout}, err: scr, screen: scr, tty: isTerminal(stderr), env: env, now: time.Now,
		warned: map[string]bool{},
	}
	err := sh.app().RunContext(ctx, args)
	code := exitCode(ctx, err)
	var left *leftError
	switch {
	case err == nil || err.Error() == "":
	case errors.As(err, &left):
		sh.say("%s", left.Error())
	case code == exitInterrupted:
		sh.say("interrupted; the state is consistent, run the command again to go on")
	default:
		sh.say("%s", advised(err))
	}
	return code
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// say tells a person something on stderr.
func (sh *shell) say(format string, args ...any) {
	fmt.Fprintf(sh.err, "resyncd: "+format+"\n", args...)
}

// json writes one object a line to stdout; URLs stay readable.
func (sh *shell) json() *json.Encoder { return jsonTo(sh.out) }

func jsonTo(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

func (sh *shell) app() *cli.App {
	return &cli.App{
		Name:  "resyncd",
		Usage: "keep an exact local mirror of ResourceSync Sources",
		Description: about("resyncd finds what a Source offers, mirrors it, and afterwards fetches only what changed: moments after it changed\n"+
			"where the Source has a hub, by schedule everywhere else. `resyncd COMMAND --help` tells more of each command.", codesAll,
			"resyncd demo",
			"resyncd sync https://lib.example/ ./mirror",
			"resyncd serve --config /etc/resyncd/resyncd.yaml"),
		HideVersion: true, DisableSliceFlagSeparator: true,
		Writer: sh.out, ErrWriter: sh.err,
		ExitErrHandler: func(*cli.Context, error) {}, // exit codes are ours (dependencies.md 3.4)
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return usage("%w; see `resyncd help`", err) },
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknown("resyncd", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		Commands: []*cli.Command{
			sh.syncCommand(), sh.serveCommand(), sh.discoverCommand(), sh.auditCommand(), sh.verifyCommand(), sh.statusCommand(), sh.lsCommand(),
			sh.catCommand(), sh.approveCommand(), sh.restoreCommand(), sh.historyCommand(), sh.subscriptionCommand(), sh.sourceCommand(),
			sh.configCommand(), sh.backupCommand(), sh.demoCommand(), sh.healthcheckCommand(), sh.manCommand(), sh.completionCommand(),
			sh.versionCommand(),
		},
	}
}

// unknown is the error of a command that does not exist.
func unknown(parent, given string) error {
	return usage("there is no command `%s %s`; see `%s --help`", parent, given, parent)
}

// group makes a command that only holds others.
func group(name, text, example string, commands ...*cli.Command) *cli.Command {
	return &cli.Command{
		Name: name, Usage: text, Description: about("", codesAll, example), Subcommands: commands, HideHelpCommand: true,
		OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknown("resyncd "+name, c.Args().First())
			}
			names := make([]string, len(commands))
			for i := range commands {
				names[i] = commands[i].Name
			}
			return usage("usage: resyncd %s %s; see `resyncd %s --help`", name, strings.Join(names, "|"), name)
		},
	}
}

// command adds to a command what all have: the common flags, and a look at the arguments. The flags named in trailing
// may stand behind an argument too; the command sees them there.
// urfave/cli would silently take `sync src --dry-run` for a real run, and a Source called `help` for a request for help.
func (sh *shell) command(c *cli.Command, trailing ...string) *cli.Command {
	c.Flags = append(c.Flags,
		&cli.StringFlag{Name: "config", Usage: "configuration `FILE`", DefaultText: "$RESYNCD_CONFIG, then ./resyncd.yaml, then /etc/resyncd/resyncd.yaml"},
		&cli.StringFlag{Name: "log-level", Value: "info", Usage: "`LEVEL`: debug, info, warn or error"},
		&cli.StringFlag{Name: "log-format", Value: "text", Usage: "`FORMAT`: text or json"},
		boolFlag("quiet", "no progress on stderr"),
	)
	c.HideHelpCommand = true
	c.OnUsageError = usageError
	action := c.Action
	c.Action = func(ctx *cli.Context) error {
		name := ctx.Command.HelpName
		for i, a := range ctx.Args().Slice() {
			switch {
			case i > 0 && slices.Contains(trailing, a):
			case strings.HasPrefix(a, "-") && i > 0:
				return usage("%q stands after an argument: flags come before arguments, as in `%s %s …`", a, name, a)
			case strings.HasPrefix(a, "-"):
				return usage("%q is no argument of `%s`: arguments do not begin with - (a folder of that name is ./%s)", a, name, a)
			case a == "":
				return usage("argument %d of `%s` is empty: is a variable of your script not set?", i+1, name)
			}
		}
		if _, err := sh.logger(ctx); err != nil {
			return err
		}
		return action(ctx)
	}
	return c
}

func usageError(c *cli.Context, err error, _ bool) error {
	return usage("%w; see `%s --help`", err, c.Command.HelpName)
}

func boolFlag(name, text string) *cli.BoolFlag {
	return &cli.BoolFlag{Name: name, Usage: text, DisableDefaultText: true}
}

// logger builds the log of a command: on stderr, never mixed with results.
func (sh *shell) logger(c *cli.Context) (*slog.Logger, error) {
	level, err := logging.ParseLevel(c.String("log-level"))
	if err != nil {
		return nil, usage("--log-level: %w", err)
	}
	format, err := logging.ParseFormat(c.String("log-format"))
	if err != nil {
		return nil, usage("--log-format: %w", err)
	}
	return logging.New(sh.err, format, level, sh.canRedraw()), nil // a dumb terminal is no better than a file
}

// args insists on a number of arguments; most < 0 is any number.
func args(c *cli.Context, least, most int, form string) error {
	if n := c.NArg(); n < least || most >= 0 && n > most {
		return usage("usage: resyncd %s; see `%s --help`", form, c.Command.HelpName)
	}
	return nil
}
