package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

func (sh *shell) manCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "man", Usage: "print the manual page",
		Description: about("It is made from the commands themselves, as is all of their help.", codesHere,
			"resyncd man > /usr/local/share/man/man1/resyncd.1", "resyncd man | man -l -"),
		Action: func(c *cli.Context) error {
			if err := args(c, 0, 0, "man"); err != nil {
				return err
			}
			return manual(sh.Out, sh.app())
		},
	})
}

// manual writes the manual page of a program, section 1, in man(7) macros. It bears neither date nor version, so that
// it changes only when the commands do.
func manual(w io.Writer, app *cli.App) error {
	m := &roff{}
	fmt.Fprintf(&m.b, ".TH %s 1 \"\" %s \"User Commands\"\n", strings.ToUpper(app.Name), quotedRoff(app.Name))
	m.section("NAME")
	m.line(app.Name + " - " + app.Usage)
	m.section("SYNOPSIS")
	fmt.Fprintf(&m.b, ".B %s\n\\fICOMMAND\\fR [\\fIflags\\fR] [\\fIarguments\\fR]\n", app.Name)
	m.section("DESCRIPTION")
	m.description(app.Description)
	m.section("COMMANDS")
	m.line("Flags stand before arguments. Results go to stdout; messages, log and progress to stderr.")
	for path, c := range walk(app.Name, app.Commands) {
		if len(c.Subcommands) == 0 {
			m.command(path, c)
		}
	}
	m.section("COMMON FLAGS")
	for _, f := range app.Commands[0].Flags { // all commands have them
		if common(f) {
			m.flag(f)
		}
	}
	m.section("EXIT STATUS")
	for _, c := range codeTexts {
		m.item(fmt.Sprint(c.code), c.text)
	}
	m.section("ENVIRONMENT")
	m.item("RESYNCD_CONFIG", "the configuration file, where --config does not name one")
	m.item("RESYNCD_SECTION_KEY", "any key of the configuration outside `sources`, such as RESYNCD_NETWORK_RETRY_FOR; "+
		"stronger than the file, weaker than flags")
	m.item("NO_COLOR", "not empty: no colours in the log on a terminal")
	m.section("FILES")
	m.item("./resyncd.yaml, /etc/resyncd/resyncd.yaml", "the configuration, the first that exists; `resyncd config "+
		"init` writes one, every key explained")
	m.item("DIR/.resyncd/", "state, stage, trash and root marker of a mirror; never part of the copy")
	_, err := io.WriteString(w, m.b.String())
	return err
}

// walk goes through commands, depth first and in their order, each with its path.
func walk(path string, commands []*cli.Command) func(yield func(string, *cli.Command) bool) {
	return func(yield func(string, *cli.Command) bool) { walkInto(path, commands, yield) }
}

func walkInto(path string, commands []*cli.Command, yield func(string, *cli.Command) bool) bool {
	for _, c := range commands {
		if c.Hidden {
			continue
		}
		if p := path + " " + c.Name; !yield(p, c) || !walkInto(p, c.Subcommands, yield) {
			return false
		}
	}
	return true
}

// commonFlags are those that sh.command gives to every command.
var commonFlags = []string{"config", "log-level", "log-format", "quiet"}

func common(f cli.Flag) bool { return slices.Contains(commonFlags, f.Names()[0]) }

// roff is a manual page in the making.
type roff struct{ b strings.Builder }

func (m *roff) section(name string) { fmt.Fprintf(&m.b, ".SH %s\n", name) }

// line writes a line of text.
func (m *roff) line(text string) { m.b.WriteString(escapedRoff(text) + "\n") }

// item writes a tagged paragraph.
func (m *roff) item(tag, text string) {
	fmt.Fprintf(&m.b, ".TP\n\\fB%s\\fR\n", wordRoff(tag))
	m.line(text)
}

func (m *roff) command(path string, c *cli.Command) {
	fmt.Fprintf(&m.b, ".SS \"%s\"\n", wordRoff(strings.TrimSpace(path+" [flags] "+c.ArgsUsage)))
	for _, alias := range c.Aliases {
		m.line("(also `" + alias + "`)")
	}
	m.line(strings.ToUpper(c.Usage[:1]) + c.Usage[1:] + ".")
	m.description(c.Description)
	for _, f := range c.Flags {
		if !common(f) {
			m.flag(f)
		}
	}
}

// description writes paragraphs and examples; the paragraph on exit codes is left to a section of its own.
func (m *roff) description(text string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		switch {
		case strings.TrimSpace(paragraph) == "", strings.HasPrefix(paragraph, codesLead):
		case strings.HasPrefix(paragraph, exampleLead):
			m.b.WriteString(".PP\n.EX\n")
			for line := range strings.SplitSeq(strings.TrimRight(paragraph, "\n"), "\n") {
				m.b.WriteString(plainRoff(wordRoff(line)) + "\n")
			}
			m.b.WriteString(".EE\n")
		default:
			m.b.WriteString(".PP\n")
			for line := range strings.SplitSeq(paragraph, "\n") {
				m.line(line)
			}
		}
	}
}

// flag writes what a flag is for, its default where it has one.
func (m *roff) flag(f cli.Flag) {
	d, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return
	}
	placeholder, text := unquoted(d.GetUsage())
	tag := "--" + f.Names()[0]
	if d.TakesValue() {
		tag += " " + placeholder
		if def := d.GetDefaultText(); def != "" {
			text += " (default: " + def + ")"
		}
	}
	m.item(tag, text)
}

// unquoted takes the name of a flag's value, which stands between backquotes, out of its usage, as urfave/cli does.
func unquoted(text string) (placeholder, plain string) {
	before, rest, ok := strings.Cut(text, "`")
	if name, after, closed := strings.Cut(rest, "`"); ok && closed {
		return name, before + name + after
	}
	return "VALUE", text
}

// escapedRoff makes a line of text safe for roff: nothing in it is a request or an escape; what stands between
// backquotes is bold.
func escapedRoff(text string) string {
	parts := strings.Split(text, "`")
	if len(parts)%2 == 0 { // one is not closed
		return plainRoff(wordRoff(text))
	}
	var b strings.Builder
	for i, part := range parts {
		if i%2 == 1 {
			b.WriteString("\\fB" + wordRoff(part) + "\\fR")
		} else {
			b.WriteString(wordRoff(part))
		}
	}
	return plainRoff(b.String())
}

// plainRoff keeps a line from being taken for a request.
func plainRoff(line string) string {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}

func quotedRoff(text string) string { return `"` + wordRoff(text) + `"` }

// wordRoff escapes what roff would take for something else, and everything beyond ASCII.
func wordRoff(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '"':
			b.WriteString(`\(dq`)
		case r == '`':
			b.WriteString("\\`")
		case r == '\'':
			b.WriteString(`\(aq`)
		case r > '~':
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
