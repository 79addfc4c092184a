package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/exit"
)

// shells are those that completions are made for.
var shells = []string{"bash", "zsh", "fish"}

func (sh *shell) completionCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "completion", Usage: "print the completions of a shell", ArgsUsage: strings.Join(shells, "|"),
		Description: about("Commands, flags and the values of flags that have a few; made from the commands "+
			"themselves.", codesHere,
			"resyncd completion bash > /etc/bash_completion.d/resyncd",
			"resyncd completion zsh > /usr/local/share/zsh/site-functions/_resyncd",
			"resyncd completion fish > ~/.config/fish/completions/resyncd.fish"),
		Action: func(c *cli.Context) error {
			form := "completion " + strings.Join(shells, "|")
			if err := args(c, 1, 1, form); err != nil {
				return err
			}
			if name := c.Args().First(); !slices.Contains(shells, name) {
				return exit.Usage("there are no completions for %q: resyncd %s", name, form)
			}
			return completion(sh.Out, sh.app(), c.Args().First())
		},
	})
}

// flagValues are the values of flags that have a few; what other flags take is completed as a file.
var flagValues = map[string][]string{
	"--log-level":  {"debug", "info", "warn", "error"},
	"--log-format": {"text", "json"},
	"--delete":     {"trash", "keep", "now"},
}

// branch is a command as completions see it.
type branch struct {
	path     string   // "resyncd source pause"
	names    []string // of it below its parent
	words    []offer  // its commands, or the values of its first argument
	flags    []offer
	fileless bool // what it takes are no files
}

// offer is one word that can be completed to.
type offer struct {
	word, help string
	takes      bool // a value
}

// branches are the app and all its commands, each after its parent.
func branches(app *cli.App) []branch {
	root := branch{path: app.Name, fileless: true}
	for _, c := range app.Commands {
		root.words = append(root.words, offersOf(c)...)
	}
	out := []branch{root}
	for path, c := range walk(app.Name, app.Commands) {
		b := branch{path: path, names: c.Names(), fileless: len(c.Subcommands) > 0}
		for _, sub := range c.Subcommands {
			b.words = append(b.words, offersOf(sub)...)
		}
		if c.Name == "help" {
			b.words = append(b.words, root.words...)
			for _, topic := range topics {
				b.words = append(b.words, offer{word: topic, help: topicTitle(topic)})
			}
			b.fileless = true
		}
		if c.Name == "completion" {
			for _, s := range shells {
				b.words = append(b.words, offer{word: s})
			}
			b.fileless = true
		}
		for _, f := range c.Flags {
			if d, ok := f.(cli.DocGenerationFlag); ok {
				_, help := unquoted(d.GetUsage())
				b.flags = append(b.flags, offer{word: "--" + f.Names()[0], help: help, takes: d.TakesValue()})
			}
		}
		b.flags = append(b.flags, offer{word: "--help", help: "show help"})
		out = append(out, b)
	}
	return out
}

func offersOf(c *cli.Command) []offer {
	var out []offer
	for _, name := range c.Names() {
		out = append(out, offer{word: name, help: c.Usage})
	}
	return out
}

// completion writes the completions of a program for a shell.
func completion(w io.Writer, app *cli.App, shell string) error {
	var text string
	switch all := branches(app); shell {
	case "bash":
		text = bashCompletion(app.Name, all)
	case "zsh":
		text = zshCompletion(app.Name, all)
	default:
		text = fishCompletion(app.Name, all)
	}
	_, err := io.WriteString(w, text)
	return err
}

// steps writes the cases by which a shell finds its way from the words before the cursor to a branch.
func steps(b *strings.Builder, indent string, all []branch) {
	for _, br := range all[1:] {
		parent := br.path[:strings.LastIndexByte(br.path, ' ')]
		patterns := make([]string, len(br.names))
		for i, name := range br.names {
			patterns[i] = "'" + parent + " " + name + "'"
		}
		fmt.Fprintf(b, "%s%s) at='%s' ;;\n", indent, strings.Join(patterns, "|"), br.path)
	}
}

func words(all []offer) string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = all[i].word
	}
	return strings.Join(out, " ")
}

// takers are the flags of all commands that take a value and have no list of them.
func takers(all []branch) []string {
	found := map[string]bool{}
	for i := range all {
		for _, f := range all[i].flags {
			if f.takes && flagValues[f.word] == nil {
				found[f.word] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func bashCompletion(name string, all []branch) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# bash completion for %s; made by `%s completion bash`.\n_%s() {\n", name, name, name)
	fmt.Fprintf(&b, "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at=%s words= flags= i\n",
		name)
	b.WriteString("\tfor ((i = 1; i < COMP_CWORD; i++)); do\n\t\tcase \"$at ${COMP_WORDS[i]}\" in\n")
	steps(&b, "\t\t", all)
	b.WriteString("\t\tesac\n\tdone\n\tcase $prev in\n")
	for _, flag := range slices.Sorted(maps.Keys(flagValues)) {
		fmt.Fprintf(&b, "\t%s) COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n", flag,
			strings.Join(flagValues[flag], " "))
	}
	fmt.Fprintf(&b, "\t%s) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n\tesac\n\tcase $at in\n",
		strings.Join(takers(all), "|"))
	for i := range all {
		fmt.Fprintf(&b, "\t'%s') words='%s' flags='%s' ;;\n", all[i].path, words(all[i].words), words(all[i].flags))
	}
	b.WriteString("\tesac\n\tcase $cur in\n\t-*) COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\")) ;;\n")
	b.WriteString("\t*) [[ $words ]] && COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) || COMPREPLY=($(compgen -f " +
		"-- \"$cur\")) ;;\n\tesac\n}\n")
	fmt.Fprintf(&b, "complete -o filenames -F _%s %s\n", name, name)
	return b.String()
}

func zshCompletion(name string, all []branch) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#compdef %s\n# zsh completion for %s; made by `%s completion zsh`.\n_%s() {\n\tlocal at=%s "+
		"word\n\tlocal -a offers flags\n", name, name, name, name, name)
	b.WriteString("\tfor word in ${words[2,CURRENT-1]}; do\n\t\tcase \"$at $word\" in\n")
	steps(&b, "\t\t", all)
	b.WriteString("\t\tesac\n\tdone\n\tcase ${words[CURRENT-1]} in\n")
	for _, flag := range slices.Sorted(maps.Keys(flagValues)) {
		fmt.Fprintf(&b, "\t%s) compadd %s; return ;;\n", flag, strings.Join(flagValues[flag], " "))
	}
	fmt.Fprintf(&b, "\t%s) _files; return ;;\n\tesac\n\tcase $at in\n", strings.Join(takers(all), "|"))
	for i := range all {
		fmt.Fprintf(&b, "\t'%s')\n\t\toffers=(%s)\n\t\tflags=(%s) ;;\n", all[i].path, described(all[i].words),
			described(all[i].flags))
	}
	b.WriteString("\tesac\n\tif [[ ${words[CURRENT]} == -* ]]; then\n\t\t_describe flag flags\n")
	b.WriteString("\telif (( $#offers )); then\n\t\t_describe command offers\n\telse\n\t\t_files\n\tfi\n}\n")
	fmt.Fprintf(&b, "if [[ $funcstack[1] == _%s ]]; then _%s \"$@\"; else compdef _%s %s; fi\n", name, name, name, name)
	return b.String()
}

// described are words for _describe of zsh.
func described(all []offer) string {
	out := make([]string, len(all))
	for i, o := range all {
		out[i] = o.word
		if o.help != "" {
			out[i] = "'" + strings.ReplaceAll(o.word+":"+strings.ReplaceAll(o.help, ":", `\:`), "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

func fishCompletion(name string, all []branch) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# fish completion for %s; made by `%s completion fish`.\nfunction __%s_at\n\tset -l at %s\n\tfor "+
		"word in (commandline -opc)[2..]\n\t\tswitch \"$at $word\"\n", name, name, name, name)
	for _, br := range all[1:] {
		parent := br.path[:strings.LastIndexByte(br.path, ' ')]
		b.WriteString("\t\tcase")
		for _, n := range br.names {
			fmt.Fprintf(&b, " '%s %s'", parent, n)
		}
		fmt.Fprintf(&b, "\n\t\t\tset at '%s'\n", br.path)
	}
	b.WriteString("\t\tend\n\tend\n\ttest \"$at\" = \"$argv[1]\"\nend\n")
	for i := range all {
		at := fmt.Sprintf("complete -c %s -n \"__%s_at '%s'\"", name, name, all[i].path)
		if all[i].fileless {
			b.WriteString(at + " -f\n")
		}
		for _, o := range all[i].words {
			fmt.Fprintf(&b, "%s -a %s%s\n", at, o.word, fishHelp(o.help))
		}
		for _, o := range all[i].flags {
			value := ""
			if list := flagValues[o.word]; o.takes && list != nil {
				value = " -x -a '" + strings.Join(list, " ") + "'"
			} else if o.takes {
				value = " -r -F"
			}
			fmt.Fprintf(&b, "%s -l %s%s%s\n", at, strings.TrimPrefix(o.word, "--"), value, fishHelp(o.help))
		}
	}
	return b.String()
}

func fishHelp(text string) string {
	if text == "" {
		return ""
	}
	return " -d '" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}
