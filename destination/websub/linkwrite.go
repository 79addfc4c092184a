package websub

import (
	"maps"
	"slices"
	"strings"
)

// LinkHeader returns the one Link header of distributed content and of a topic (H-11, P-01): hub, self and further
// links. Empty ones are left out.
func LinkHeader(hub, self string, more ...Link) string {
	var b strings.Builder
	writeLink(&b, Link{Target: hub, Rels: []string{"hub"}})
	writeLink(&b, Link{Target: self, Rels: []string{"self"}})
	for _, l := range more {
		writeLink(&b, l)
	}
	return b.String()
}

func writeLink(b *strings.Builder, l Link) {
	if l.Target == "" || len(l.Rels) == 0 {
		return
	}
	if b.Len() > 0 {
		b.WriteString(", ")
	}
	b.WriteByte('<')
	writeTarget(b, l.Target)
	b.WriteString(">; rel=")
	writeQuoted(b, strings.Join(l.Rels, " "))
	if l.Anchor != "" {
		b.WriteString("; anchor=")
		writeQuoted(b, l.Anchor)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Params)) {
		value := l.Params[name]
		if !fitParam(name, value) {
			continue
		}
		b.WriteString("; ")
		b.WriteString(name)
		if strings.HasSuffix(name, "*") { // never quoted (RFC 8187)
			b.WriteByte('=')
			b.WriteString(value)
		} else if value != "" {
			b.WriteByte('=')
			writeQuoted(b, value)
		}
	}
}

func fitParam(name, value string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	outside := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(marks, r))
	}
	return name != "" && strings.IndexFunc(name, outside) < 0 &&
		(!strings.HasSuffix(name, "*") || value != "" && strings.IndexFunc(value, outside) < 0)
}

// writeTarget escapes only what would end the target or the header early (S-04).
func writeTarget(b *strings.Builder, s string) {
	const digits = "0123456789ABCDEF"
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '<' || c == '>' {
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
			continue
		}
		b.WriteByte(s[i])
	}
}

// Control characters, which a header may not hold, become blanks.
func writeQuoted(b *strings.Builder, s string) {
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c == 0x7f:
			b.WriteByte(' ')
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
}
