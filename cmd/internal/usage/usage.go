// Package usage knows how the commands and flags of a program are written down: one page of YAML, from which command
// line, help, manual and completions are made. It refuses to know what a command does.
package usage

import (
	"bytes"
	"iter"
	"slices"
	"strconv"
	"strings"
	"text/template"

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
	Codes    []int // that it may end with
	Flags    []Flag
	Common   []Flag // that all commands have which do something
	Commands []Command
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
		err = yaml.Unmarshal(text.Bytes(), c)
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
