package health

import (
	_ "embed" // for what is said
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/sync/report"
)

//go:embed words.yaml
var wordsFile []byte

// wordsOf are all that is said to operators of how a Source stands.
type wordsOf struct {
	Findings         map[string]console.Finding
	Rejections, Hubs map[string]string
	Halts            map[string]struct{ State, Do string }
	Causes           map[string]struct{ Said, Do string }
}

var words = sync.OnceValue(func() (w wordsOf) {
	if err := yaml.Unmarshal(wordsFile, &w); err != nil {
		panic("health: words.yaml: " + err.Error()) // a test reads it
	}
	return w
})

// say is a finding of words.yaml.
func say(key string, args ...any) console.Finding {
	f := words().Findings[key]
	f.Why = fmt.Sprintf(f.Why, args...)
	return f
}

// spaced puts a sentence, if there is one, behind another.
func spaced(text string) string {
	if text == "" {
		return ""
	}
	return " " + text
}

// reasonFor is a channel's reason as part of a sentence.
func reasonFor(c *report.ChannelStatus) string {
	if c.Reason == nil || *c.Reason == "" {
		return "it gave no reason"
	}
	return strings.TrimRight(Clipped(*c.Reason), ".")
}

// count writes a number with its word.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// stampOf writes an instant for people.
func stampOf(t time.Time) string {
	if t.Year() < 1 || t.IsZero() { // all that was before
		return "an unknown time"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// when writes an instant near now, as the end of a sentence.
func (s *Standing) when(t time.Time) string {
	switch {
	case t.IsZero():
		return "soon"
	case t.UTC().Format(time.DateOnly) == s.Now.UTC().Format(time.DateOnly):
		return "at " + t.UTC().Format("15:04:05 UTC")
	}
	return "on " + stampOf(t)
}

// longestWhy is how many bytes of a text of somebody else are shown where it is part of a sentence.
const longestWhy = 400

// Clipped makes a text of others part of a line.
func Clipped(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= longestWhy {
		return text
	}
	cut := longestWhy
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// sentence begins a text as a sentence does, and leaves its end open. A URL or a name in lower case keeps it.
func sentence(text string) string {
	text = strings.TrimRight(Clipped(text), ".")
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return text
	}
	if word, _, _ := strings.Cut(text, " "); strings.ContainsAny(word, "/:.") {
		return text
	}
	return string(unicode.ToUpper(first)) + text[size:]
}
