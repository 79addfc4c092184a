package term

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"unicode"

	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/store"
	syncengine "resyncd/sync"
	"resyncd/sync/report"
)

// Text is a text that may be absent.
func Text(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// Bytes writes a number of bytes for people.
func Bytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n)/1024, "KMGTPE"
	for f >= 1024 && len(units) > 1 {
		f, units = f/1024, units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", f, units[0])
}

// OneLine makes text of a peer safe to print.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// Why is the reason of a state, where there is one.
func Why(l *report.Listing) string {
	s := ""
	if l.Reason != nil {
		s = "  # " + *l.Reason
	}
	if l.Attempts != nil && !l.NextTry.IsZero() {
		s += fmt.Sprintf(" (attempts %d, next try %s)", *l.Attempts, l.NextTry)
	}
	return s
}

// Edit tells an edit of a record on one line.
func Edit(e *report.EditLine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "by %s:", Text(e.Author))
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		if e.Fields[name] == "" {
			fmt.Fprintf(&b, " %s erased", name)
		} else {
			fmt.Fprintf(&b, " %s=%q", name, e.Fields[name])
		}
	}
	if len(e.Odd) > 0 {
		fmt.Fprintf(&b, "  # odd: %s", strings.Join(e.Odd, "; "))
	}
	return b.String()
}

// Approved says what an approval did.
func Approved(done *syncengine.Approved) string {
	verb := "removed"
	if done.Rejected {
		verb = "kept until the list changes"
	}
	return fmt.Sprintf("%d held resources %s", done.Resources, verb)
}

// Restored says what came back.
func Restored(t *store.Trashed) string { return "restored " + t.Key }

// LeaseLeft says what a forgotten Source leaves at a hub.
func LeaseLeft(s *store.Subscription) string {
	return fmt.Sprintf("%s is still subscribed at %s, which delivers in vain until %s", URL(s.Topic), URL(s.Hub),
		report.TimeOf(s.Expires))
}

// URLs of Sources, documents, hubs and topics may carry tokens, so they are shown shortened (P10). URIs of resources
// stay as they are: users ask for them by name.

// URL is raw unless it carries a token: then a mark that tells two apart stands for its query and user (P10).
func URL(raw string) string {
	u, err := url.Parse(raw)
	if err == nil && u.User == nil && !telling.MatchString(u.RawQuery) {
		return raw
	}
	return logging.URI(raw).String()
}

// telling is a query with a parameter whose name says that it is secret.
var telling = regexp.MustCompile(`(?i)(^|[&;])[^=&;]*(token|key|secret|pass|pwd|auth|sig|cred|session|jwt|sid)`)

// Status is a status whose URLs carry no token.
func Status(s report.SourceStatus) report.SourceStatus {
	s = Copied(s)
	s.URL, s.Problem = URL(s.URL), redacted(s.Problem)
	for i := range s.Sets {
		set := &s.Sets[i]
		set.CapabilityList, set.Problem = URL(set.CapabilityList), redacted(set.Problem)
		set.Channels = slices.Clone(set.Channels)
		for j := range set.Channels {
			set.Channels[j] = Channel(set.Channels[j])
		}
	}
	return s
}

// Channel is a channel whose URLs carry no token.
func Channel(c report.ChannelStatus) report.ChannelStatus {
	c.Topic, c.Hub, c.Reason = URL(c.Topic), URL(c.Hub), redacted(c.Reason)
	return c
}

// Result is a result whose URL carries no token.
func Result(r *syncengine.Result) *syncengine.Result {
	out := *r
	out.Set, out.Problem = URL(r.Set), logging.Redact(r.Problem)
	return &out
}

func redacted(text *string) *string {
	if text == nil {
		return nil
	}
	return new(logging.Redact(*text))
}

// TopicNamed is the topic among subs that is called given, as it is or as it is shown; else given.
func TopicNamed(subs []store.Subscription, given string) string {
	for i := range subs {
		if subs[i].Topic == given || URL(subs[i].Topic) == given {
			return subs[i].Topic
		}
	}
	return given
}

// Copied is a status whose sets may be changed.
func Copied(s report.SourceStatus) report.SourceStatus {
	s.Sets = slices.Clone(s.Sets)
	return s
}

// Summary tells a person what a run did with one set, and what to do next.
func Summary(w io.Writer, label string, r *syncengine.Result) error {
	return Write(w, "result", map[string]any{
		"Label": label, "Result": Result(r), "Would": cmp.Or(r.Would, &syncengine.Would{}),
	})
}

//go:embed *.tmpl
var templates embed.FS

// texts are the templates, once one of them is asked for.
var texts = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"bytes": Bytes, "oneLine": OneLine, "quote": strconv.Quote, "yaml": yamlText,
		"relations": func() []string {
			return []string{"current", "first", "previous", "next", "last", "prev-archive", "next-archive"}
		},
	}).ParseFS(templates, "*.tmpl"))
})

// Write writes a text for people: what name stands for in the templates, filled with data.
func Write(w io.Writer, name string, data any) error {
	var b bytes.Buffer
	err := texts().ExecuteTemplate(&b, name, data)
	if err == nil {
		_, err = w.Write(b.Bytes())
	}
	return err
}

// plainURL is a URL that YAML takes for nothing else.
var plainURL = regexp.MustCompile(`^https?://[\w./~%?=&+,;@!()*$:-]*[\w./~%?=&+,;@!()*$-]$`)

// yamlText is a value of one line: as it is where it is a plain URL, else quoted.
func yamlText(text string) string {
	if plainURL.MatchString(text) {
		return text
	}
	return strconv.QuoteToASCII(text)
}
