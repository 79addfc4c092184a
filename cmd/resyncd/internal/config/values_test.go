package config

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"resyncd/destination/fuzztest"
)

func TestSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Size{
		"0": 0, "4096": 4096, "8MiB": 8 << 20, "8 MiB": 8 << 20, "500kB": 500_000, "1TiB": 1 << 40, "7B": 7, "3GB": 3e9,
	} {
		if s, err := parseSize(text); err != nil || s != want {
			t.Errorf("%q: %d, %v; want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "-1", "+1", "1.5MiB", "8M", "8mib", "MiB", "8388608TiB", "9223372036854775808", "1e3", "0x10", "8MiBB", "8  MiB"} {
		if s, err := parseSize(text); err == nil {
			t.Errorf("%q is accepted as %d", text, s)
		}
	}
}

// Every value is written so that it is read back as itself.
func TestWrittenFormsReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size := Size(rapid.Int64Min(0).Draw(t, "size"))
		if s, err := parseSize(size.String()); err != nil || s != size {
			t.Fatalf("size %d as %s: %d, %v", size, size, s, err)
		}
		share := Percent(rapid.Float64Range(0, 100).Draw(t, "share"))
		if p, err := parsePercent(share.String()); err != nil || p != share {
			t.Fatalf("share %v as %s: %v, %v", float64(share), share, float64(p), err)
		}
		want := time.Duration(rapid.Int64Min(0).Draw(t, "duration"))
		if d, err := parseDuration(written(want)); err != nil || d != want {
			t.Fatalf("duration %v as %s: %v, %v", want, written(want), d, err)
		}
	})
}

func TestDurationText(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", time.Minute: "1m", 240 * time.Hour: "240h", 90 * time.Second: "1m30s", time.Hour + time.Second: "1h0m1s", 10 * time.Minute: "10m", 20 * time.Hour: "20h",
	} {
		if got := written(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestPercent(t *testing.T) {
	t.Parallel()
	if p, err := parsePercent("12.5%"); err != nil || p.Share() != 0.125 {
		t.Errorf("%v, %v", p.Share(), err)
	}
	for _, text := range []string{"", "%", "20", "-1%", "101%", "NaN%", "Inf%", "20 %"} {
		if _, err := parsePercent(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestGlob(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"https://h/a/*", "**/*.pdf", "**", "https://h/?q=*"} {
		if g, err := parseGlob(text); err != nil || g != text {
			t.Errorf("%q: %q, %v", text, g, err)
		}
	}
	for _, text := range []string{"", "*.pdf", "/data/*", "https://h/a b", "https://h/\u202e"} {
		if _, err := parseGlob(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, time.March, 8, 1, 59, 30, 0, time.FixedZone("PST", -8*3600)) // a night of daylight saving there
	for spec, want := range map[string]string{
		"0 * * * *":        "2026-03-08T10:00:00Z",
		"30 4 * * *":       "2026-03-09T04:30:00Z",
		"@daily":           "2026-03-09T00:00:00Z",
		"@every 15m":       "2026-03-08T10:14:30Z",
		"0 0 29 2 *":       "2028-02-29T00:00:00Z",
		"0 0 ? JAN mo":     "",
		"*/7 2 1,15 * 1-5": "2026-03-09T02:00:00Z",
	} {
		s, err := ParseSchedule(spec)
		if want == "" {
			if err == nil {
				t.Errorf("%q is accepted", spec)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", spec, err)
		} else if got := s.Next(from).Format(time.RFC3339); got != want {
			t.Errorf("%q: next %s, want %s", spec, got, want)
		}
	}
	for _, spec := range []string{"", " ", "TZ=UTC", "CRON_TZ=UTC", "TZ=UTC * * * * *", "@every -1s", "@every 0s", "@every 999ms", "@every 9000h", "@every",
		"@reboot", "* * * *", "0 * * * * *", "0 0 31 2 *", "0 0 30 2 *", ", * * * *", "1,,2 * * * *", "*-5 * * * *", "60 * * * *", "*/0 * * * *",
		"*/99999999999999999999 * * * *", strings.Repeat("1,", 200) + "1 * * * *", "\x00 * * * *"} {
		if s, err := ParseSchedule(spec); err == nil {
			t.Errorf("%q is accepted as %v", spec, s)
		}
	}
	if !(Schedule{}).Next(from).IsZero() {
		t.Error("the zero Schedule is due")
	}
	if s := Default().Defaults.Schedule; s.String() != "@every 15m" || !s.Next(from).Equal(from.Add(15*time.Minute)) {
		t.Errorf("the default is %v", s)
	}
}

func FuzzSchedule(f *testing.F) {
	for _, spec := range []string{"@every 15m", "0 0 31 2 *", "TZ=UTC", "*/5 1-4 1,2 JAN-MAR ?", ", * * * *", "*-5 * * * *", "@daily"} {
		f.Add(spec)
	}
	from := time.Date(2026, time.November, 21, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, spec string) {
		fuzztest.Bound(t)
		s, err := ParseSchedule(spec)
		if err != nil {
			return
		}
		if next := s.Next(from); !next.After(from) {
			t.Errorf("%q: next %v is not after %v", spec, next, from)
		}
	})
}
