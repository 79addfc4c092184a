package config

import (
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const exampleHead = `# Configuration of resyncd. Every key is shown with its default; a key that is left out keeps it.
#
# A key outside sources can also be set by a variable, RESYNCD_ and its path in upper case joined by _, such as
# RESYNCD_NETWORK_RETRY_FOR (lists separated by commas; an empty variable counts as not set). Flags are stronger
# than variables, variables than this file; a Source's own key is stronger than defaults, wherever these were set.
# Relative paths are relative to the working directory. To see what is wrong: resyncd config check --config FILE
`

// exampleFeeds are two more entries.
const exampleFeeds = `#   # A feed: one file per entry, and those that its entries enclose.
#   - name: news
#     url: https://blog.example.org/
#     kind: feed
#     follow: [enclosure]
#     scope: [https://media.example.org/]
#   # A feed of edits as Google's Resource Finder publishes it: one JSON file per record.
#   - name: clinics
#     url: https://records.example.org/feeds/delta
#     kind: feed
#     records: resource-finder
`

// Starter is the file that `config init` writes. It is made from the struct tags, so it cannot lag behind them.
func Starter() string {
	var b strings.Builder
	b.WriteString(exampleHead)
	describe(&b, "", reflect.ValueOf(Default()).Elem())
	b.WriteString("#\n# One entry, to stand in place of the [], its own keys with their defaults; each key of " +
		"defaults may be added:\n#\n# sources:\n")
	s, _ := Default().Adhoc("example", "https://example.org/") // a test loads it
	var entry strings.Builder
	describe(&entry, "", reflect.ValueOf(&s).Elem())
	lead := "  "
	for line := range strings.Lines(entry.String()) {
		if lead == "  " && !strings.HasPrefix(line, "#") {
			b.WriteString("#   - " + line)
			lead = "    "
			continue
		}
		b.WriteString("# " + lead + line)
	}
	b.WriteString(exampleFeeds)
	return b.String()
}

// describe writes each key of a section below a comment. A policy was described as defaults.
func describe(b *strings.Builder, indent string, section reflect.Value) {
	var policy []field
	if section.Type() == reflect.TypeFor[Source]() {
		policy = fieldsOf(reflect.ValueOf(new(Policy)).Elem())
	}
	for _, f := range fieldsOf(section) {
		if _, ok := find(policy, f.key); ok {
			continue
		}
		if indent == "" && policy == nil {
			b.WriteString("\n")
		}
		comment(b, indent, f)
		if f.isSection() {
			b.WriteString(indent + f.key + ":\n")
			describe(b, indent+"  ", f.value)
			continue
		}
		b.WriteString(indent + f.key + ": " + inline(f) + "\n")
	}
}

func comment(b *strings.Builder, indent string, f field) {
	words := strings.Fields(f.tag.Get("doc"))
	if one, ok := f.tag.Lookup("one"); ok {
		if only, ok := f.tag.Lookup("only"); ok {
			words = append(words, "(In this version only "+strings.ReplaceAll(strconv.Quote(only), "|", `" or "`)+".)")
		} else {
			if strings.HasPrefix(one, "|") {
				one = `""` + one
			}
			words = append(words, "("+strings.ReplaceAll(one, "|", " | ")+")")
		}
	}
	if limits, ok := f.tag.Lookup("range"); ok {
		words = append(words, "("+strings.Replace(limits, "..", " to ", 1)+")")
	}
	const width = 110
	line := indent + "#"
	for _, w := range words {
		if len(line)+1+len(w) > width {
			b.WriteString(line + "\n")
			line = indent + "#"
		}
		line += " " + w
	}
	if len(words) > 0 {
		b.WriteString(line + "\n")
	}
}

func inline(f field) string {
	if f.value.Kind() == reflect.Map {
		return "{}"
	}
	text, err := yaml.Marshal(f.node())
	if err != nil {
		return `""`
	}
	return strings.TrimSpace(string(text))
}
