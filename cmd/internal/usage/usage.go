// Package usage knows how the commands and flags of a program are written down: one page of YAML, from which command
// line, help, manual and completions are made. It refuses to know what a command does.
package usage

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"
)

// Command is a program, or one of its commands.
type Command struct {
	Name     string
	Aliases  []string
	Usage    string // in a few words
	Synopsis string // of a program without commands
	Args     string
	Form     string // what is told to whom gives too few or too many arguments
	Takes    [2]int // at least and at most so many arguments; the most is -1 for any number
	About    string
	Examples []string
	Codes    string   // that it may end with
	Kinds    []string // texts that the page uses as Codes
	Endings  []Ending // of a program: all codes
	Flags    []Flag
	Common   []Flag // that all commands have which do something
	Commands []Command
}

// Ending is an exit code (contract.md 1) and what it means.
type Ending struct {
	Code int
	Text string
}

// Flag is a flag of a command.
type Flag struct {
	Name    string
	Usage   string // with the name of its value between backquotes
	Type    string // bool where none is given, string, int, uint64, float64 or duration
	Value   string // where the flag is not given
	Default string // Value as help tells it
	Behind  bool   // it may also stand behind the arguments
	Words   []string
}

// Read reads the page of a program, in which data fills what only the code knows. A page that cannot be read is a
// mistake in the program.
func Read(page string, data any) *Command {
	var text bytes.Buffer
	c := new(Command)
	err := template.Must(template.New("").Option("missingkey=error").Parse(page)).Execute(&text, data)
	if err == nil {
		page := yaml.NewDecoder(&text)
		page.KnownFields(true)
		err = page.Decode(c)
	}
	if err != nil {
		panic(err)
	}
	c.App(Program{}) // panics at a flag that cannot be made
	return c
}

// Program is what a program does with its command line.
type Program struct {
	Do    func(c *cli.Context, page *Command) error // also a command that only holds others
	Wrong cli.OnUsageErrorFunc                      // words what is wrong with flags
	// Offer completes a command, of which flags are all; nil where the program has no completions.
	Offer func(c *cli.Context, page *Command, flags []Flag)
}

// App is the program of a page for the command line. It must not run twice at a time within a process: urfave/cli has
// state of its own.
func (c *Command) App(p Program) *cli.App {
	root := c.cli(p, c.Common)
	return &cli.App{
		Name: root.Name, Usage: root.Usage, UsageText: c.Synopsis, Description: root.Description,
		Flags:    append(root.Flags, cli.HelpFlag), // the library adds it only together with a help command of its own
		Commands: root.Subcommands, Action: root.Action, OnUsageError: root.OnUsageError,
		EnableBashCompletion: p.Offer != nil, BashComplete: root.BashComplete,
		HideHelpCommand: true, HideVersion: true,
		ExitErrHandler: func(*cli.Context, error) {}, // exit codes are ours
	}
}

// cli is a command for the command line; common are the flags of all that do something.
func (c *Command) cli(p Program, common []Flag) *cli.Command {
	flags := c.Flags
	if len(c.Commands) == 0 {
		flags = slices.Concat(flags, common)
	}
	out := &cli.Command{
		Name: c.Name, Aliases: c.Aliases, Usage: c.Usage, ArgsUsage: c.Args, Description: c.Description(),
		HideHelpCommand: true, // a Source may be called help
		OnUsageError:    p.Wrong,
		Action:          func(called *cli.Context) error { return p.Do(called, c) },
		BashComplete:    func(called *cli.Context) { p.Offer(called, c, flags) },
	}
	for _, f := range flags {
		made, err := f.cli()
		if err != nil {
			panic(fmt.Errorf("--%s of %s: %w", f.Name, c.Name, err))
		}
		out.Flags = append(out.Flags, made)
	}
	for i := range c.Commands {
		out.Subcommands = append(out.Subcommands, c.Commands[i].cli(p, common))
	}
	return out
}

// cli is the flag for the command line.
func (f *Flag) cli() (cli.Flag, error) {
	number := cmp.Or(f.Value, "0")
	switch f.Type {
	case "":
		silent := f.Default == ""
		return &cli.BoolFlag{Name: f.Name, Usage: f.Usage, DefaultText: f.Default, DisableDefaultText: silent}, nil
	case "string":
		return &cli.StringFlag{Name: f.Name, Usage: f.Usage, Value: f.Value, DefaultText: f.Default}, nil
	case "int":
		n, err := strconv.Atoi(number)
		return &cli.IntFlag{Name: f.Name, Usage: f.Usage, Value: n, DefaultText: f.Default}, err
	case "uint64":
		n, err := strconv.ParseUint(number, 10, 64)
		return &cli.Uint64Flag{Name: f.Name, Usage: f.Usage, Value: n, DefaultText: f.Default}, err
	case "float64":
		x, err := strconv.ParseFloat(number, 64)
		return &cli.Float64Flag{Name: f.Name, Usage: f.Usage, Value: x, DefaultText: f.Default}, err
	case "duration":
		d, err := time.ParseDuration(number)
		return &cli.DurationFlag{Name: f.Name, Usage: f.Usage, Value: d, DefaultText: f.Default}, err
	}
	return nil, fmt.Errorf("there is no type %q", f.Type)
}

// Description tells what a command does, how it is called, how it may end.
func (c *Command) Description() string {
	text := ""
	if c.About != "" {
		text = c.About + "\n\n"
	}
	for _, e := range c.Examples {
		text += "   " + e + "\n"
	}
	return text + "\n" + c.Codes
}

// Takes names what the flag takes, "" for nothing: it stands between backquotes in the usage.
func (f Flag) Takes() string {
	parts := strings.SplitN(f.Usage, "`", 3)
	if f.Type == "" || len(parts) < 3 {
		return ""
	}
	return parts[1]
}

// Text is the usage without marks.
func (f Flag) Text() string { return strings.ReplaceAll(f.Usage, "`", "") }

// Shown is the value that the flag has where it is not given, as help shows it.
func (f Flag) Shown() string {
	if f.Default == "" && f.Value != "" && f.Type == "string" {
		return strconv.Quote(f.Value)
	}
	return cmp.Or(f.Default, f.Value)
}

// All are the commands below c, depth first and in their order, each with how it is called.
func (c *Command) All() iter.Seq2[string, *Command] {
	return func(yield func(string, *Command) bool) { c.walk(c.Name, yield) }
}

func (c *Command) walk(path string, yield func(string, *Command) bool) bool {
	for i := range c.Commands {
		sub := &c.Commands[i]
		below := path + " " + sub.Name
		if !yield(below, sub) || !sub.walk(below, yield) {
			return false
		}
	}
	return true
}

// MayStandBehind reports whether a word is a flag that is taken behind the arguments too.
func (c *Command) MayStandBehind(word string) bool {
	return slices.ContainsFunc(c.Flags, func(f Flag) bool { return f.Behind && "--"+f.Name == word })
}
