package usage

import (
	_ "embed" // the form of a help
	"flag"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"
)

// Call is a command as it was called.
type Call struct {
	Command   *Command
	Path      string // with the commands that it is below, "resyncd source pause"
	IsProgram bool   // no command of it was named
	Flags     []Flag // also those that all commands have
	set       *flag.FlagSet
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
	c.set = flag.NewFlagSet(c.Path, flag.ContinueOnError)
	c.set.SetOutput(io.Discard)
	help := c.set.Bool("help", false, "")
	c.set.BoolVar(help, "h", false, "")
	for _, f := range c.Flags {
		switch f.Type {
		case "string":
			c.set.String(f.Name, f.Value, "")
		case "int":
			n, _ := strconv.Atoi(f.Value)
			c.set.Int(f.Name, n, "")
		case "uint64":
			n, _ := strconv.ParseUint(f.Value, 10, 64)
			c.set.Uint64(f.Name, n, "")
		case "float64":
			x, _ := strconv.ParseFloat(f.Value, 64)
			c.set.Float64(f.Name, x, "")
		case "duration":
			d, _ := time.ParseDuration(f.Value)
			c.set.Duration(f.Name, d, "")
		default:
			c.set.Bool(f.Name, false, "")
		}
	}
	return c.set.Parse(args)
}

// Args are the arguments behind the flags.
func (c *Call) Args() []string { return c.set.Args() }

// NArg is how many arguments there are.
func (c *Call) NArg() int { return c.set.NArg() }

// Arg is the argument with the number i, from 0; "" where there are not so many.
func (c *Call) Arg(i int) string { return c.set.Arg(i) }

// IsSet reports whether a flag was given.
func (c *Call) IsSet(name string) (given bool) {
	c.set.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// String is the value of a flag as text; "" where the command has no such flag.
func (c *Call) String(name string) string {
	if f := c.set.Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

func value[T any](c *Call, name string) (v T) {
	if f := c.set.Lookup(name); f != nil {
		v, _ = f.Value.(flag.Getter).Get().(T)
	}
	return v
}

// Bool is the value of a flag that takes none; false where the command has no such flag.
func (c *Call) Bool(name string) bool { return value[bool](c, name) }

// Int is the value of a flag that takes a number.
func (c *Call) Int(name string) int { return value[int](c, name) }

// Uint64 is the value of a flag that takes a number of 64 bits.
func (c *Call) Uint64(name string) uint64 { return value[uint64](c, name) }

// Float64 is the value of a flag that takes a number with a fraction.
func (c *Call) Float64(name string) float64 { return value[float64](c, name) }

// Duration is the value of a flag that takes a time.
func (c *Call) Duration(name string) time.Duration { return value[time.Duration](c, name) }

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
