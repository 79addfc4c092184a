// Package usage knows how the commands and flags of a program are written down: one page of YAML, from which command
// line, help, manual and completions are made. It refuses to know what a command does.
package usage

import (
	"bytes"
	_ "embed" // the form of a help
	"flag"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"

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
	return c
}

// Names are those that a command goes by.
func (c *Command) Names() []string { return append([]string{c.Name}, c.Aliases...) }

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
	switch {
	case f.Default != "":
		return f.Default
	case f.Value == "" && f.Type == "duration":
		return "0s"
	case f.Value == "" && f.Type != "string" && f.Type != "":
		return "0"
	case f.Value != "" && f.Type == "string":
		return strconv.Quote(f.Value)
	}
	return f.Value
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

// Call is a command as it was called; its arguments are those of the FlagSet.
type Call struct {
	*flag.FlagSet
	Command   *Command
	Path      string // with the commands that it is below, "resyncd source pause"
	IsProgram bool   // no command of it was named
	Flags     []Flag // also those that all commands have
}

// Parse finds the command that args call, which are those behind the name of the program c. The call is also returned
// with the error of its flags.
func (c *Command) Parse(args []string) (*Call, error) {
	call := &Call{Command: c, Path: c.Name, IsProgram: true, Flags: c.Flags}
	for {
		if err := call.parse(args); err != nil || call.Bool("help") {
			return call, err
		}
		at := slices.IndexFunc(call.Command.Commands, func(sub Command) bool {
			return slices.Contains(sub.Names(), call.Arg(0))
		})
		if at < 0 {
			return call, nil
		}
		args = call.Args()[1:]
		sub := &call.Command.Commands[at]
		call = &Call{Command: sub, Path: call.Path + " " + sub.Name, Flags: sub.Flags}
		if len(sub.Commands) == 0 {
			call.Flags = slices.Concat(sub.Flags, c.Common)
		}
	}
}

func (c *Call) parse(args []string) error {
	c.FlagSet = flag.NewFlagSet(c.Path, flag.ContinueOnError)
	c.SetOutput(io.Discard)
	help := c.FlagSet.Bool("help", false, "")
	c.BoolVar(help, "h", false, "")
	for _, f := range c.Flags {
		switch f.Type {
		case "string":
			c.FlagSet.String(f.Name, "", "")
		case "int":
			c.FlagSet.Int(f.Name, 0, "")
		case "uint64":
			c.FlagSet.Uint64(f.Name, 0, "")
		case "float64":
			c.FlagSet.Float64(f.Name, 0, "")
		case "duration":
			c.FlagSet.Duration(f.Name, 0, "")
		default:
			c.FlagSet.Bool(f.Name, false, "")
		}
		if f.Value != "" {
			if err := c.Lookup(f.Name).Value.Set(f.Value); err != nil {
				return err
			}
		}
	}
	return c.FlagSet.Parse(args)
}

// IsSet reports whether a flag was given.
func (c *Call) IsSet(name string) (given bool) {
	c.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// Value is the value of a flag of the type T; nothing where the command has no such flag.
func Value[T any](c *Call, name string) (v T) {
	if f := c.Lookup(name); f != nil {
		v, _ = f.Value.(flag.Getter).Get().(T)
	}
	return v
}

// Bool is the value of a flag that takes none.
func (c *Call) Bool(name string) bool { return Value[bool](c, name) }

// Int is the value of a flag that takes a number.
func (c *Call) Int(name string) int { return Value[int](c, name) }

// Duration is the value of a flag that takes a time.
func (c *Call) Duration(name string) time.Duration { return Value[time.Duration](c, name) }

// String is the value of a flag of any type as text.
func (c *Call) String(name string) string {
	if f := c.Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

//go:embed help.tmpl
var helpForm string

// Help writes the help of the command; about is its description.
func (c *Call) Help(w io.Writer, about string) error {
	form, err := template.New("").Funcs(template.FuncMap{"indent": indented}).Parse(helpForm)
	if err != nil {
		return err
	}
	columns := tabwriter.NewWriter(w, 1, 8, 2, ' ', 0)
	err = form.Execute(columns, struct {
		*Call
		About string
	}{c, about})
	if err != nil {
		return err
	}
	return columns.Flush()
}

// indented has the lines below the first stand below it.
func indented(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n", "\n   "), "\n   \n", "\n\n")
}
