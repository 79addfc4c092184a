package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/fuzztest"
)

// looks are the ways in which New writes.
var looks = map[string]struct {
	asJSON, tty bool
}{"text": {false, false}, "json": {true, false}, "json on a terminal": {true, true}, "terminal": {false, true}}

// hostile are texts that must not reach a terminal raw: direction overrides, C0 and C1 controls, line separators,
// tag characters, bytes that are no UTF-8, and tint's own way back to the escape character.
var hostile = []string{"\u202egpj.exe", "\x1b]0;owned\x07", "\u009b31m", "a\nINF forged", "\u2028x", "\U000e0041", "\x9b\xff", `\x1b[31m red`, "\x1b[31m red", "\u200b"}

func TestNothingHostilePasses(t *testing.T) {
	t.Parallel()
	for name, look := range looks {
		for _, bad := range hostile {
			var out bytes.Buffer
			log := New(&out, look.asJSON, slog.LevelInfo, look.tty)
			log.With(KeySource, bad).WithGroup("g").Warn(bad, "uri", bad, KeyErr, errors.New(bad), "any", struct{ S string }{bad}, "bytes", []byte(bad),
				slog.Group("in", "x", bad), "text", marshaler(bad))
			line := out.String()
			if !look.asJSON && look.tty {
				for _, colour := range []string{"\x1b[0m", "\x1b[2m", "\x1b[22m", "\x1b[91m", "\x1b[92m", "\x1b[93m"} {
					line = strings.ReplaceAll(line, colour, "")
				}
			}
			line, ended := strings.CutSuffix(line, "\n")
			if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }); i >= 0 || !ended {
				t.Errorf("%s, %+q: %+q", name, bad, line)
			}
		}
	}
}

type marshaler string

func (m marshaler) MarshalText() ([]byte, error) { return []byte(m), nil }

// The JSON of a line means what was logged, escaped or not.
func TestJSONKeepsItsMeaning(t *testing.T) {
	t.Parallel()
	const text = "a\u202eb \U000e0041 é 日本 \u009b \x1b"
	var out bytes.Buffer
	New(&out, true, slog.LevelInfo, false).Info(text, KeySource, text)
	var line map[string]string
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	delete(line, "time")
	if diff := cmp.Diff(map[string]string{"level": "INFO", "msg": text, KeySource: text}, line); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(out.String(), "é 日本") {
		t.Errorf("printable text is escaped: %s", out.String())
	}
}

func TestLevelsAndColours(t *testing.T) {
	for _, noColor := range []string{"", "1"} {
		t.Setenv("NO_COLOR", noColor)
		var out bytes.Buffer
		log := New(&out, false, slog.LevelWarn, true)
		log.Info("quiet")
		log.Warn("loud", KeySource, "lib")
		if got := out.String(); strings.Contains(got, "quiet") || !strings.Contains(got, "loud") || !strings.Contains(got, "WRN") {
			t.Errorf("%q", got)
		}
		if coloured := strings.Contains(out.String(), "\x1b["); coloured != (noColor == "") {
			t.Errorf("NO_COLOR=%q: %q", noColor, out.String())
		}
	}
	var out bytes.Buffer
	New(&out, false, slog.LevelInfo, false).Info("plain", KeyJob, "7")
	if strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), "job=7") {
		t.Errorf("%q", out.String())
	}
}

const token = "hunter2"

// TestTokensAreHidden logs URLs with tokens in every place, as values and within errors (P10).
func TestTokensAreHidden(t *testing.T) {
	t.Parallel()
	inQuery := "https://h.example/data/x.xml?sig=" + token
	var nilErr *url.Error
	for name, look := range looks {
		var out bytes.Buffer
		log := New(&out, look.asJSON, slog.LevelInfo, look.tty)
		log = log.With(KeyHub, URL("https://u:"+token+"@hub.example/"+token+"?"+token))
		_, parse := url.Parse(fmt.Sprintf("https://h.example/%%%s?%s", "zz", token))
		log.Error("fetch", "uri", URI(inQuery),
			Err(fmt.Errorf("get it: %w", &url.Error{Op: "Get", URL: inQuery, Err: io.ErrUnexpectedEOF})),
			"cause", errors.Join(io.EOF, errors.New("redirected to ("+inQuery+"), 'HTTPS://u:"+token+"@x/y'.")),
			"parse", parse, "nil", nilErr, "list", inQuery, "set", "urn:x "+inQuery, "all", []string{inQuery}, "other", "nats://u:"+token+"@q/x",
			slog.Group("deep", "e", errors.New("postgres://u:"+token+"@db/x refused")))
		line := out.String()
		if strings.Contains(line, token) {
			t.Errorf("%s: a token shows: %s", name, line)
		}
		for _, want := range []string{"hub.example/#", "h.example/data/x.xml?#", "unexpected EOF", "db/x", "refused"} {
			if !strings.Contains(line, want) {
				t.Errorf("%s: %s is missing: %s", name, want, line)
			}
		}
	}
}

func TestShortForms(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ got, want string }{
		{URL("https://h.example:8443/cb/secret").String(), "https://h.example:8443/#" + digest("https://h.example:8443/cb/secret")},
		{URL("nonsense " + token).String(), "#" + digest("nonsense "+token)},
		{URL("").String(), "#" + digest("")},
		{URI("https://h.example/a%2Fb").String(), "https://h.example/a%2Fb"},
		{URI("https://h.example/a?b").String(), "https://h.example/a?#" + digest("https://h.example/a?b")},
		{URI("mailto:x").String(), "#" + digest("mailto:x")},
		{Redact("no address here"), "no address here"},
		{Redact("at https://h.example/a."), "at https://h.example/a."},
		{Redact(URL("https://h.example/cb/secret").String()), URL("https://h.example/cb/secret").String()},
		{Redact(URI("https://h.example/a?b").String()), URI("https://h.example/a?b").String()},
	} {
		if tc.got != tc.want {
			t.Errorf("%q, want %q", tc.got, tc.want)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]slog.Level{"debug": slog.LevelDebug, "Info": slog.LevelInfo, "warn": slog.LevelWarn, "ERROR": slog.LevelError} {
		if got, err := ParseLevel(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if _, err := ParseLevel("loud"); err == nil {
		t.Error("loud is accepted")
	}
}

// A failed write is told, and a count never exceeds what was given.
func TestEscaperReportsFailure(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"plain", "\u202e\u202e"} {
		if n, err := (escaper{failing{}}).Write([]byte(text)); err == nil || n > len(text) {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
}

type failing struct{}

func (failing) Write(p []byte) (int, error) { return len(p), io.ErrShortWrite }

func FuzzEscaper(f *testing.F) {
	for _, text := range hostile {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		fuzztest.Bound(t)
		var out bytes.Buffer
		if n, err := (escaper{&out}).Write(p); n != len(p) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		for _, r := range out.String() {
			if r >= 0x80 && !unicode.IsPrint(r) {
				t.Fatalf("%q -> %q", p, out.String())
			}
		}
	})
}

func FuzzRedact(f *testing.F) {
	f.Add("https://h/", "x")
	f.Add("see http://u:", "@h/?")
	f.Fuzz(func(t *testing.T, before, after string) {
		fuzztest.Bound(t)
		// Whatever stands around it, a query of a URL never shows.
		got := Redact(before + " https://h.example/?" + token + " " + after)
		if !strings.Contains(before+after, token) && strings.Contains(got, token) {
			t.Errorf("%q", got)
		}
	})
}
