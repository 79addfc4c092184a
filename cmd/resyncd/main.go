//go:debug zipinsecurepath=0

// Command resyncd knows how a person or a script asks for a mirror: flags, exit codes, progress and text. It refuses to
// know how anything is done; it wires the rooms below together.
package main

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"text/template"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/internal/usage"
	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/control"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store/sqlite"
)

func main() { os.Exit(program()) }

// program is the process without its end: it takes arguments, environment and signals and returns the exit code.
func program() int {
	ballast := make([]byte, 2<<20) // never touched, so no memory; a small heap is collected less often
	defer runtime.KeepAlive(ballast)
	log.SetOutput(io.Discard) // net/http writes there what peers sent, unasked and unescaped; our own log is another
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		<-signals
		stop()
		<-signals // a second one ends the process at once; the state bears that (F1)
		os.Exit(exit.Interrupted)
	}()
	return run(ctx, os.Args, os.Environ(), os.Stdout, os.Stderr)
}

// shell is one invocation of the command line.
type shell struct {
	*term.Env
	args    []string
	program *usage.Command
	c       *cli.Context   // of the command that runs
	log     *slog.Logger   // of the command, once its flags are read
	mirrors *mirror.Opener // likewise
}

// run carries out one command line and returns its exit code. It must not be called twice at a time within a process.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	sh := &shell{Env: term.NewEnv(env, stdout, stderr), args: args, program: commands()}
	err := sh.app().RunContext(ctx, args)
	code := exit.Code(ctx, err)
	var told *exit.Error
	switch {
	case err == nil || err.Error() == "":
	case code == exit.Interrupted && !(errors.As(err, &told) && told.Code == code):
		sh.Say("interrupted; the state is consistent, run the command again to go on")
	default:
		sh.Say("%s", exit.Advised(err))
	}
	return code
}

func (sh *shell) app() *cli.App {
	app := sh.program.App(usage.Program{Do: sh.do, Wrong: wrong, Offer: sh.offer})
	app.Writer, app.ErrWriter = sh.Out, sh.Err
	return app
}

// wrong tells where to read about the flags of what was called.
func wrong(c *cli.Context, err error, isCommand bool) error {
	if isCommand {
		return exit.Usage("%w; see `%s --help`", err, c.Command.HelpName)
	}
	return exit.Usage("%w; see `resyncd help`", err)
}

// do has the command that is called do its work.
func (sh *shell) do(c *cli.Context, page *usage.Command) error {
	sh.c = c
	name := c.Command.HelpName
	path := strings.TrimPrefix(name, "resyncd ")
	switch {
	case len(page.Commands) == 0:
		return sh.act(path, page)
	case c.Args().Present():
		return exit.Usage("there is no command `%s %s`; see `%[1]s --help`", name, c.Args().First())
	case page == sh.program:
		return cli.ShowAppHelp(c)
	}
	names := make([]string, len(page.Commands))
	for i := range page.Commands {
		names[i] = page.Commands[i].Name
	}
	return exit.Usage("usage: resyncd %s %s; see `resyncd %[1]s --help`", path, strings.Join(names, "|"))
}

// actions are what the commands do.
func (sh *shell) actions() map[string]func() error {
	return map[string]func() error{
		"sync": sh.sync, "serve": sh.serve, "demo": sh.demo, "discover": sh.discover,
		"audit": sh.check, "verify": sh.check, "status": sh.status,
		"ls": sh.ls, "cat": sh.cat, "history": sh.history,
		"approve": sh.ask(control.AskApprove), "restore": sh.ask(control.AskRestore),
		"source pause": sh.ask(control.AskPause), "source resume": sh.ask(control.AskResume),
		"source forget":      sh.ask(control.AskForget),
		"subscription list":  sh.listSubscriptions,
		"subscription renew": sh.askHubs(control.AskRenew), "subscription cancel": sh.askHubs(control.AskCancel),
		"config check": sh.configCheck, "config print": sh.configPrint, "config init": sh.configInit,
		"backup": sh.backup, "healthcheck": sh.healthcheck,
		"man": sh.man, "completion": sh.completion, "version": sh.printVersion, "help": sh.help,
	}
}

// act looks at the arguments before a command does its work. urfave/cli would silently take `sync src --dry-run` for a
// real run.
func (sh *shell) act(path string, page *usage.Command) (err error) {
	name, n := sh.c.Command.HelpName, sh.c.NArg()
	for i, a := range sh.c.Args().Slice() {
		isFlag := strings.HasPrefix(a, "-")
		switch {
		case isFlag && i > 0 && i == sh.c.NArg()-1 && page.MayStandBehind(a):
			n--
		case isFlag && i > 0:
			return exit.Usage("%[1]q stands after an argument: flags come before arguments, as in `%[2]s %[1]s …`",
				a, name)
		case isFlag:
			return exit.Usage("%q is no argument of `%s`: arguments do not begin with - (a folder of that "+
				"name is ./%s)", a, name, a)
		case a == "":
			return exit.Usage("argument %d of `%s` is empty: is a variable of your script not set?", i+1, name)
		}
	}
	if sh.log, err = sh.logger(); err != nil {
		return err
	}
	sh.mirrors = sh.opener()
	if least, most := page.Takes[0], page.Takes[1]; n < least || most >= 0 && n > most {
		form := cmp.Or(page.Form, strings.TrimSpace(path+" "+page.Args))
		return exit.Usage("usage: resyncd %s; see `%s --help`", form, name)
	}
	return sh.actions()[path]()
}

// logger builds the log of a command: on stderr, never mixed with results.
func (sh *shell) logger() (*slog.Logger, error) {
	level, err := logging.ParseLevel(sh.c.String("log-level"))
	if err != nil {
		return nil, exit.Usage("--log-level: %w", err)
	}
	format := sh.c.String("log-format")
	if format != "text" && format != "json" {
		return nil, exit.Usage("--log-format: log format %q is not allowed; write text or json", format)
	}
	return logging.New(sh.Err, format == "json", level, sh.CanRedraw()), nil // a dumb terminal is no better than a file
}

// opener finds and opens mirrors as command line and environment say (contract.md 2).
func (sh *shell) opener() *mirror.Opener {
	op := &mirror.Opener{
		File: sh.c.String("config"), Environ: sh.Environ, Version: version, Log: sh.log, Now: sh.Now, Say: sh.Say,
	}
	for _, f := range []config.Flag{
		{Name: "delete", Key: "defaults.delete"}, {Name: "concurrency", Key: "defaults.concurrency"},
		{Name: "retry-for", Key: "network.retry_for"}, {Name: "idle-timeout", Key: "network.idle_timeout"},
	} {
		if sh.c.IsSet(f.Name) {
			f.Text = sh.c.String(f.Name)
			op.Flags = append(op.Flags, f)
		}
	}
	return op
}

// commandsPage is what is written of the commands, manTemplate the form of the manual page that is made of it.
//
//go:embed commands.yaml
var commandsPage string

//go:embed man.tmpl
var manTemplate string

// manualPages are what `resyncd help TOPIC` shows.
//
//go:embed docs/*.md
var manualPages embed.FS

// topics are the pages of the manual, in the order in which a reader meets them.
var topics = []string{"operate", "dumps", "feeds", "push", "console", "layout", "service", "security", "contract",
	"performance", "testing", "faults"}

// commands are the texts of the program.
func commands() *usage.Command { return usage.Read(commandsPage, nil) }

// code is a text between backquotes.
var code = regexp.MustCompile("`([^`]*)`")

// manual is the manual page of the program, section 1. It bears neither date nor version, so that it changes only when
// the commands do.
func manual(page *usage.Command) ([]byte, error) {
	var b bytes.Buffer
	form, err := template.New("").Funcs(template.FuncMap{
		"paragraphs": func(text string) []string { return strings.Split(text, "\n\n") },
		"sentence":   func(text string) string { return strings.ToUpper(text[:1]) + text[1:] },
	}).Parse(manTemplate)
	if err == nil {
		err = form.Execute(&b, page)
	}
	// Hyphens are those that are typed, and groff reads ASCII only.
	plain := strings.NewReplacer("-", `\-`, "…", "...").Replace(b.String())
	return code.ReplaceAll([]byte(plain), []byte(`\fB$1\fR`)), err
}

func (sh *shell) man() error { return sh.write(manual(sh.program)) }

// write writes a page, unless it could not be read.
func (sh *shell) write(page []byte, err error) error {
	if err == nil {
		_, err = sh.Out.Write(page)
	}
	return err
}

func (sh *shell) help() error {
	words := sh.c.Args().Slice()
	if len(words) == 1 && slices.Contains(topics, words[0]) {
		return sh.write(manualPages.ReadFile("docs/" + words[0] + ".md"))
	}
	c := &cli.Command{Subcommands: sh.c.App.Commands}
	for i, word := range words {
		if c = c.Command(word); c == nil {
			return exit.Usage("there is neither a command nor a topic `%s`; see `resyncd help`",
				strings.Join(words[:i+1], " "))
		}
	}
	return sh.c.App.RunContext(sh.c.Context, slices.Concat([]string{sh.c.App.Name}, words, []string{"--help"}))
}

// topicTitle is the heading of a topic's page.
func topicTitle(topic string) string {
	page, _ := manualPages.ReadFile("docs/" + topic + ".md")
	title, _, _ := strings.Cut(strings.TrimPrefix(string(page), "# "), "\n")
	return title
}

// completionScripts ask the program itself what a word can become (offer).
//
//go:embed packaging/completions/resyncd.bash packaging/completions/_resyncd packaging/completions/resyncd.fish
var completionScripts embed.FS

// shells are those that completions are made for, scripts the files of their completions.
var (
	shells  = []string{"bash", "zsh", "fish"}
	scripts = map[string]string{"bash": "resyncd.bash", "zsh": "_resyncd", "fish": "resyncd.fish"}
)

func (sh *shell) completion() error {
	name := sh.c.Args().First()
	if !slices.Contains(shells, name) {
		return exit.Usage("there are no completions for %q: resyncd completion %s", name, strings.Join(shells, "|"))
	}
	return sh.write(completionScripts.ReadFile("packaging/completions/" + scripts[name]))
}

// offer prints what the word at the cursor can become, each on a line with its help; nothing where that is a file. The
// scripts give the words before it, a - where it is a flag, and the library's own flag for this.
func (sh *shell) offer(c *cli.Context, page *usage.Command, flags []usage.Flag) {
	before := sh.args[len(sh.args)-2]
	all := slices.Concat(flags, sh.program.Common) // also before a command was chosen
	switch at := slices.IndexFunc(all, func(f usage.Flag) bool { return "--"+f.Name == before }); {
	case before == "-":
		for _, f := range flags {
			sh.offerWord("--"+f.Name, f.Text())
		}
		sh.offerWord("--help", "show help")
	case at >= 0 && (all[at].Words != nil || at < len(flags) && all[at].Type != ""):
		for _, value := range all[at].Words {
			sh.offerWord(value, "")
		}
	case c.NArg() > 0:
	case page.Name == "completion":
		for _, name := range shells {
			sh.offerWord(name, "")
		}
	case page.Name == "help":
		sh.offerCommands(c.App.Commands)
		for _, topic := range topics {
			sh.offerWord(topic, topicTitle(topic))
		}
	default:
		sh.offerCommands(c.Command.Subcommands)
	}
}

func (sh *shell) offerCommands(commands []*cli.Command) {
	for _, c := range commands {
		for _, name := range c.Names() {
			sh.offerWord(name, c.Usage)
		}
	}
}

func (sh *shell) offerWord(word, help string) { _ = sh.Print("%s\t%s\n", word, help) }

// version and revision are set by release builds (-ldflags "-X main.version=… -X main.revision=…"). Any other build is
// on its way to the newest version of the changelog.
var (
	version  = "0.11.0-dev"
	revision = ""
)

func (sh *shell) printVersion() error {
	return sh.Print("resyncd %s\ncommit %s\ngo %s %s/%s\nsqlite %s\n",
		version, commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH, sqlite.Version())
}

// commit is what a release was made from, else what the build recorded of its checkout.
func commit() string {
	var built string
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				built = s.Value
			}
		}
	}
	return cmp.Or(revision, built, "unknown")
}
