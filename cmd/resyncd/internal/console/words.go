package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/report"
)

// mostText bounds a stranger's text, in characters.
const mostText = 2000

// plain spells out what cannot be seen or would reorder its surroundings in a stranger's text. Escaping is the
// template's work.
func plain(text string) string {
	if len(text) <= mostText && strings.IndexFunc(text, unseen) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > mostText {
			b.WriteString("…")
			break
		}
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			b.WriteByte(' ')
		case unseen(r):
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// address is a URL that a stranger wrote, without a token that it carries (P10).
func address(raw string) string { return plain(term.URL(raw)) }

// tail is the last part of such a URL, which tells packages apart.
func tail(raw string) string {
	whole := address(raw)
	if at := strings.LastIndexByte(strings.TrimRight(whole, "/"), '/'); at >= 0 {
		return whole[at+1:]
	}
	return whole
}

// web reports whether a stranger's URL may be followed from a page. One with a token is only shown (P10).
func web(raw string) bool {
	return (strings.HasPrefix(raw, "https://") || strings.HasPrefix(raw, "http://")) && term.URL(raw) == raw
}

// relation is a relation in short: that of a patch is a URI, whose end tells.
func relation(rel string) string {
	return strings.TrimPrefix(rel, "http://www.openarchives.org/rs/terms/")
}

// reason is a text that a stranger wrote, without the tokens of URLs in it (P10).
func reason(text string) string { return plain(logging.Redact(text)) }

// titleOf is the title of a feed's entry.
func titleOf(meta json.RawMessage) string {
	var m struct {
		Title string `json:"title"`
	}
	if json.Unmarshal(meta, &m) != nil {
		return ""
	}
	return m.Title
}

// detailOf is what an event of a resource has to say for itself.
func detailOf(l report.HistoryLine) string {
	switch {
	case l.Detail != nil:
		return logging.Redact(*l.Detail)
	case l.EditLine != nil:
		return term.Edit(l.EditLine)
	}
	return ""
}

// ChannelLevel is how bad the state of a channel is.
func ChannelLevel(state string) Level {
	switch store.SubscriptionState(state) {
	case store.SubActive, store.SubRenewing, store.SubOff, store.SubGone:
		return Good
	case store.SubDenied, store.SubLapsed, store.SubFailed:
		return Warn
	}
	return Busy
}

// unseen are controls, and format characters such as U+202E.
func unseen(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co)
}

func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	digits := strings.TrimPrefix(s, "-")
	if len(digits) <= 3 {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:len(s)-len(digits)])
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

func size(n int64) string {
	const step = 1024
	if n < step {
		return strconv.FormatInt(n, 10) + " B"
	}
	x, unit := float64(n)/step, 0
	for x >= 999.5 && unit < len("KMGTPE")-1 {
		x /= step
		unit++
	}
	digits := 1
	if x >= 99.95 {
		digits = 0
	}
	return strconv.FormatFloat(x, 'f', digits, 64) + " " + "KMGTPE"[unit:unit+1] + "iB"
}

// Span writes a duration without zeros that say nothing.
func Span(d time.Duration) string {
	text := d.Round(time.Second).String()
	if t, ok := strings.CutSuffix(text, "m0s"); ok {
		text = t + "m"
	}
	if t, ok := strings.CutSuffix(text, "h0m"); ok {
		text = t + "h"
	}
	return text
}

// long writes a duration in one or two units; console.js has the same rules.
func long(d time.Duration) string {
	d = max(d, -d)
	two := func(n time.Duration, unit string, rest time.Duration, small string) string {
		if rest == 0 {
			return fmt.Sprintf("%d %s", n, unit)
		}
		return fmt.Sprintf("%d %s %d %s", n, unit, rest, small)
	}
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 10*time.Minute:
		return two(d/time.Minute, "min", d%time.Minute/time.Second, "s")
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 10*time.Hour:
		return two(d/time.Hour, "h", d%time.Hour/time.Minute, "min")
	case d < 2*day:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d < 10*day:
		return two(d/day, "d", d%day/time.Hour, "h")
	}
	return count(int64(d/day)) + " d"
}

func short(seconds float64) string {
	switch {
	case seconds < 0:
		return "–"
	case seconds < 0.0995:
		return strconv.FormatFloat(seconds*1000, 'f', 1, 64) + " ms"
	case seconds < 0.9995:
		return strconv.FormatFloat(seconds*1000, 'f', 0, 64) + " ms"
	case seconds < 60:
		return strconv.FormatFloat(seconds, 'f', 1, 64) + " s"
	}
	return long(time.Duration(seconds * float64(time.Second)))
}

func away(now, t time.Time) string {
	if d := t.Sub(now); d >= time.Second {
		return "in " + long(d)
	}
	return long(now.Sub(t)) + " ago"
}

const clock = "2006-01-02 15:04:05"

// timeTag is an instant as an element; layout and title are formats of it. Only digits and words of our own may be
// passed to it.
func timeTag(t time.Time, class, layout, title, text string) template.HTML {
	if t.IsZero() {
		return never
	}
	if title != "" {
		title = ` title="` + t.UTC().Format(title) + `"`
	}
	at := t.UTC().Format(layout)
	return template.HTML(`<time` + class + ` datetime="` + at + `"` + title + `>` + text + `</time>`) //nolint:gosec
}

// distance is the class of instants that show how far they are from now; the script keeps that true.
const distance = ` class="ago"`

// stamp shows an instant to the second, with what is finer in its title.
func stamp(t time.Time) template.HTML {
	return timeTag(t, "", time.RFC3339Nano, "2006-01-02 15:04:05.999999 UTC", t.UTC().Format(clock))
}

// ago shows how far an instant is from now.
func ago(now, t time.Time) template.HTML {
	return timeTag(t, distance, time.RFC3339, clock+" UTC", away(now, t))
}

// moment is stamp without what is finer, for where there are hundreds.
func moment(t time.Time) template.HTML {
	return timeTag(t, "", time.RFC3339, "", t.UTC().Format(clock))
}

// brief is ago without the title, for where there are thousands.
func brief(now, t time.Time) template.HTML {
	return timeTag(t, distance, time.RFC3339, "", away(now, t))
}

const never = template.HTML(`<span class="none">–</span>`)

var levels = [...]string{"good", "busy", "warn", "bad"}

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Level) UnmarshalText(text []byte) error {
	at := slices.Index(levels[:], string(text))
	if at < 0 {
		return fmt.Errorf("%q is no level", text)
	}
	*l = Level(at)
	return nil
}

func (l Level) word() string {
	return levels[min(l, Bad)]
}

// gap says what a gap means.
func gap(g report.GapStatus, feed bool) Finding {
	f, known := gapWords[store.GapState(g.State)]
	if !known {
		f.Level, f.Why = Busy, "the Source's list is asked"
	}
	f.State = g.State
	switch {
	case g.State == string(store.GapUnprovable) && feed:
		f.Why = "the feed did not reach back: entries may be missing, nobody can tell"
	case g.State == string(store.GapClosed):
		by := "more evidence"
		if g.ClosedBy != nil {
			by = cmp.Or(closers[*g.ClosedBy], by)
		}
		f.Why = "closed by " + by
		if took := g.Ended.Sub(g.Found.Time); !g.Ended.IsZero() && took >= 0 {
			f.Why += " after " + Span(max(took, time.Second))
		}
	}
	return f
}

// gapWords are what gaps mean, by their state.
var gapWords = map[store.GapState]Finding{
	store.GapClosed: {Level: Good},
	store.GapUnprovable: {Level: Warn, Why: "nobody can prove what happened; everything is compared when the " +
		"Resource List changes"},
	store.GapLagging:  {Level: Warn, Why: "the list lags behind a notification; it is asked again"},
	store.GapWaiting:  {Level: Busy, Why: "waiting a moment for a late notification"},
	store.GapBaseline: {Level: Busy, Why: "no list reaches back: everything is compared"},
}

// closers are what closes gaps.
var closers = map[string]string{
	coverage.ByNotification: "a late notification", coverage.ByChangeList: "a Change List",
	coverage.ByArchive: "an archived Change List", coverage.ByChangeDump: "a Change Dump",
	coverage.ByBaseline: "a baseline",
}
