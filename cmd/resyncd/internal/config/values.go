package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"resyncd/destination"
	"resyncd/destination/safe"
)

// written is the text of a value as it is read back; of a duration 240h, not 240h0m0s.
func written(v any) string {
	text := fmt.Sprint(v)
	if _, ok := v.(time.Duration); ok {
		for _, end := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(text, end) {
				text = text[:len(text)-2]
			}
		}
	}
	return text
}

func parseInt(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, errors.New("is not a whole number")
	}
	return n, nil
}

func parseFloat(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, errors.New("is not a number")
	}
	return x, nil
}

// Size is a number of bytes, written 8MiB, 500kB or 4096.
type Size int64

// units leaves out a bare K or M, which has two meanings.
var units = []struct {
	name   string
	factor int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

func parseSize(text string) (Size, error) {
	number, factor := text, int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			number, factor = strings.TrimSuffix(rest, " "), u.factor
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || int64(n) > math.MaxInt64/factor {
		return 0, errors.New("is not a size: write a whole number of bytes, or one with KiB, MiB, GiB, TiB, kB, MB, " +
			"GB or TB, such as 8MiB")
	}
	return Size(int64(n) * factor), nil
}

// String writes s with the largest binary unit that divides it.
func (s Size) String() string {
	for _, u := range units[:4] {
		if s != 0 && int64(s)%u.factor == 0 {
			return strconv.FormatInt(int64(s)/u.factor, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// Percent is a share in hundredths, 20 for 20%.
type Percent float64

// Share is p as a fraction, 0.2 for 20%.
func (p Percent) Share() float64 { return float64(p) / 100 }

func parsePercent(text string) (Percent, error) {
	number, ok := strings.CutSuffix(text, "%")
	f, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(f >= 0 && f <= 100) {
		return 0, errors.New("is not a share: write 0% to 100%, such as 20%")
	}
	return Percent(f), nil
}

// String writes p as it is written in the file.
func (p Percent) String() string { return strconv.FormatFloat(float64(p), 'g', -1, 64) + "%" }

// parseGlob reads a pattern for whole URIs as destination.NewFilter does.
func parseGlob(text string) (string, error) {
	if strings.ContainsFunc(text, notVisible) {
		return "", errors.New("is not a URI glob: it holds a blank or an invisible character")
	}
	if strings.HasPrefix(text, "/") {
		return "", errors.New("is not a URI glob: matches no URI: begin with the scheme or with **")
	}
	if _, err := destination.NewFilter([]string{text}, nil); err != nil {
		return "", fmt.Errorf("is not a URI glob: %w", errors.Unwrap(err))
	}
	return text, nil
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, errors.New("is not a duration: write a number with its unit, such as 30s, 15m or 168h")
	}
	return d, nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil || prefix.Addr().Is4In6():
		return netip.Prefix{}, errors.New("is not an address range: write 10.0.0.0/8, fd00::/8 or a single address")
	case prefix != prefix.Masked():
		return netip.Prefix{}, fmt.Errorf("is not an address range: it names a host in it; write %s", prefix.Masked())
	}
	return prefix, nil
}

// quoted shows a text cut and escaped.
func quoted(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return strconv.Quote(text)
}

// visible is quoted without the quotes.
func visible(text string) string {
	q := quoted(text)
	return q[1 : len(q)-1]
}

// Schedule is a checked cron spec, in UTC: no hour is skipped or doubled.
type Schedule struct {
	spec string
	next cron.Schedule
}

// Next is the first time after t at which s is due; the zero Schedule never is.
func (s Schedule) Next(t time.Time) time.Time {
	if s.next == nil {
		return time.Time{}
	}
	return s.next.Next(t.UTC())
}

// String is the spec as it was written.
func (s Schedule) String() string { return s.spec }

// ParseSchedule reads a cron spec of five fields or a descriptor such as @daily or @every 15m.
//
// cron/v3 panics on some input, reads time zones we do not want, turns "@every -1s" into every second and sleeps for
// ever on 31 February (dependencies.md 3.3); all of these are refused here.
func ParseSchedule(spec string) (s Schedule, err error) {
	err = safe.Do(func() (err error) {
		s, err = parseSchedule(spec)
		return err
	})
	if _, ok := errors.AsType[*safe.PanicError](err); ok {
		return Schedule{}, errors.New("is not a cron spec")
	}
	return s, err
}

func parseSchedule(spec string) (Schedule, error) {
	if len(spec) > 256 {
		return Schedule{}, errors.New("is not a cron spec: too long")
	}
	if strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ=") {
		return Schedule{}, errors.New("names a time zone: schedules are in UTC, leave the zone out")
	}
	if every, ok := strings.CutPrefix(spec, "@every "); ok {
		d, err := time.ParseDuration(every)
		if err != nil || d < time.Second || d > 8760*time.Hour {
			return Schedule{}, errors.New("is not a cron spec: @every takes a duration from 1s to 8760h, such " +
				"as @every 15m")
		}
		return Schedule{spec, cron.Every(d)}, nil
	}
	if err := oddField(spec); err != nil {
		return Schedule{}, err
	}
	next, err := cron.ParseStandard(spec)
	if err != nil {
		return Schedule{}, fmt.Errorf("is not a cron spec (five fields: minute, hour, day of month, month, day of "+
			"week; or @hourly, @daily, @weekly, @monthly, @every 15m): %s",
			strings.ToValidUTF8(err.Error(), "?"))
	}
	// The library gives up after five years.
	if next.Next(time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Schedule{}, errors.New("is never due: no such day exists")
	}
	return Schedule{spec, next}, nil
}

// oddField refuses what cron/v3 takes silently: an empty item matches nothing, "*-x" is "*".
func oddField(spec string) error {
	for field := range strings.FieldsSeq(spec) {
		for item := range strings.SplitSeq(field, ",") {
			if item == "" || strings.HasPrefix(item, "*-") || strings.HasPrefix(item, "?-") {
				return fmt.Errorf("is not a cron spec: the field %s cannot be read", quoted(field))
			}
		}
	}
	return nil
}

const hidden = "(hidden)"

const maxSecret = 64 << 10

// Secret is a text that no log, error, page or export may show (P10). It lies behind a pointer because fmt prints
// unexported fields.
type Secret struct{ text *string }

// NewSecret wraps text; the empty text is no secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal is the text itself.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsSet reports whether there is anything to hide.
func (s Secret) IsSet() bool { return s.text != nil }

// String hides the text.
func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return hidden
}

// Format hides the text from every verb of fmt.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText hides the text from encoding/json, yaml and slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// readSecret reads a text without its line end. warn is set if others may read the file.
func readSecret(path string) (text, warn string, err error) {
	info, err := os.Stat(path) // a FIFO would block
	var data []byte
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		return "", "", errors.New("is not a regular file")
	case info.Size() > maxSecret:
		return "", "", errors.New("is too large for a secret")
	default:
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return "", "", errors.New("cannot be read: " + reason(err))
	}
	text = strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if text == "" {
		return "", "", errors.New("holds no secret: it is empty")
	}
	return text, exposed(path, info.Mode()), nil
}

// secretFiles reads secrets given by file, and reports whether any was given inline.
func (r *report) secretFiles(cfg *Config) (inline bool) {
	inline = r.secretsOf("console", cfg.Console.keys(), cfg)
	for i := range cfg.Sources {
		path, a := fmt.Sprintf("sources[%d].auth", i), &cfg.Sources[i].Auth
		inline = r.secretsOf(path, a.keys(), cfg) || inline
		for _, name := range slices.Sorted(maps.Keys(a.Header)) {
			value := a.Header[name]
			header, isFile := strings.CutSuffix(name, "_file")
			if !isFile {
				inline = true
				continue
			}
			delete(a.Header, name)
			r.secretFile(cfg, path+".header."+name, value.Reveal(), secret(name, &value, headerText))
			a.Header[header] = value
		}
	}
	return inline
}

// secretsOf takes for each secret of a section what its file holds.
func (r *report) secretsOf(path string, keys []key, cfg *Config) (inline bool) {
	for _, k := range keys {
		if file, ok := find(keys, k.name+"_file"); ok {
			inline = inline || k.given()
			r.secretFile(cfg, join(path, file.name), file.texts()[0], k)
		}
	}
	return inline
}

// secretFile gives the secret k what is in the file that key names. Problems hold nothing of the content, and not the
// name of the file, which may be the secret itself.
func (r *report) secretFile(cfg *Config, key, path string, k key) {
	if path == "" || !r.given(key) {
		return
	}
	text, warn, err := readSecret(path)
	if err == nil {
		if err = k.set(text); err != nil {
			err = fmt.Errorf("holds no usable secret: it %w", err)
		}
	}
	switch {
	case err != nil:
		r.clash(key, "the file "+err.Error())
	case warn != "":
		cfg.Warnings = append(cfg.Warnings, warn)
	}
}

// exposed warns of a file that others may read; Windows keeps rights elsewhere.
func exposed(path string, mode os.FileMode) string {
	if mode.Perm()&0o077 == 0 || runtime.GOOS == "windows" {
		return ""
	}
	return fmt.Sprintf("%s holds a secret and others may read it (mode %04o): run chmod 600 %s", path, mode.Perm(),
		path)
}

func reason(err error) string {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}
