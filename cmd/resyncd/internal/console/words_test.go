package console

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"resyncd/store"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		count(0): "0", count(-1234567): "-1,234,567", count(999): "999", count(1000): "1,000", count(math.MinInt64): "-9,223,372,036,854,775,808",
		size(0): "0 B", size(1023): "1023 B", size(1024): "1.0 KiB", size(1 << 20): "1.0 MiB", size(1023 << 10): "1.0 MiB", size(150 << 20): "150 MiB", size(math.MaxInt64): "8.0 EiB",
		long(0): "0 s", long(59 * time.Second): "59 s", long(time.Minute): "1 min", long(61 * time.Second): "1 min 1 s", long(11*time.Minute + time.Second): "11 min",
		long(90 * time.Minute): "1 h 30 min", long(11*time.Hour + time.Minute): "11 h", long(50 * time.Hour): "2 d 2 h", long(-4000 * day): "4,000 d",
		short(-1): "–", short(0): "0.0 ms", short(.0123): "12.3 ms", short(.3): "300 ms", short(2.34): "2.3 s", short(3600): "1 h",
		away(noon, noon): "0 s ago", away(noon, noon.Add(time.Minute)): "in 1 min", away(noon, noon.Add(-time.Minute)): "1 min ago",
		percent(-1): "0%", percent(101): "100%", percent(33.333): "33.33%",
		string(stamp(time.Time{})): string(never), string(ago(noon, time.Time{})): string(never),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := plain("a\u202eb\nc\x00d\xffe\u200f"); got != `a\u202eb c\u0000d\ufffde\u200f` {
		t.Errorf("%q", got)
	}
}

// TestPlain: nothing of what it returns is unseen, too long or broken, and what needs no change gets none.
func TestPlain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }), rapid.Map(rapid.IntRange(0, 3*mostText), func(n int) string { return strings.Repeat("ä", n) })).Draw(t, "text")
		got := plain(text)
		if !utf8.ValidString(got) || strings.IndexFunc(got, unseen) >= 0 || utf8.RuneCountInString(got) > 12*mostText {
			t.Fatalf("%q", got)
		}
		if again := plain(got); utf8.RuneCountInString(got) <= mostText && again != got {
			t.Fatalf("%q becomes %q", got, again)
		}
	})
}

func TestSpark(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ got, want string }{
		{bars(nil, 4, 18), ""},
		{bars([]float64{0, -3, math.NaN(), math.Inf(1)}, 4, 18), ""},
		{bars([]float64{1, 0, 100}, 4, 18), "M2 18v-1M10 18v-17"},
		{line(nil, 4, 18), ""},
		{line([]float64{-1, -1}, 4, 18), ""},
		{line([]float64{0, 0}, 4, 18), "M2 17 6 17"},
		{line([]float64{1, -1, 2, 1, -1, 2}, 4, 18), "M2 9h0M10 1 14 9M22 1h0"},
	} {
		if tc.got != tc.want {
			t.Errorf("%q, want %q", tc.got, tc.want)
		}
	}
}

func TestLease(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		from, until time.Duration
		share       string
		low         bool
		ends        string
	}{
		{-time.Hour, 3 * time.Hour, "75%", false, "ends"},
		{-19 * time.Hour, time.Hour, "5%", true, "ends"},
		{-2 * time.Hour, -time.Hour, "0%", true, "ended"},
		{time.Hour, 2 * time.Hour, "100%", false, "ends"},
		{time.Hour, time.Hour, "100%", false, "ends"}, // it makes no sense
	} {
		l := newLease(noon, noon.Add(tc.from), noon.Add(tc.until))
		if l.Share != tc.share || l.Low != tc.low || l.Ends != tc.ends {
			t.Errorf("%+v: %+v", tc, l)
		}
	}
	if newLease(noon, noon, time.Time{}) != nil {
		t.Error("a lease that is none")
	}
	if l := newLease(noon, time.Time{}, noon.Add(time.Hour)); l.Share != "100%" || l.From != "" {
		t.Errorf("of unknown length: %+v", l)
	}
}

// TestChart: the slots and days add up to what was given, latency is the mean of pushes.
func TestChart(t *testing.T) {
	t.Parallel()
	point := func(age time.Duration, changes, pushes int64, mean int64) store.Point {
		return store.Point{At: store.MicrosOf(noon.Add(-age)), Changes: changes, Failed: 1, Bytes: 10, Pushes: pushes, Latency: pushes * mean * 1e6, LatencyMost: 2e6 * mean}
	}
	c := newChart(noon, []store.Point{
		point(40*day, 1000, 9, 9), point(-day, 1000, 9, 9), point(2*time.Hour, 5, 1, 1), point(time.Hour, 7, 3, 2), point(3*day, 1, 0, 0),
	})
	if c.Sum.Changes != 13 || c.Sum.Failed != 3 || c.Sum.Bytes != 30 || c.Sum.Pushes != 4 || latency(c.Sum) != 1.75 || longest(c.Sum) != 4 || c.ChangesMost != 12 {
		t.Errorf("%+v", c)
	}
	if len(c.Days) != 2 || c.Days[0].Day != "2026-11-21" || c.Days[0].Changes != 12 || latency(c.Days[1].Point) != -1 {
		t.Errorf("%+v", c.Days)
	}
	if empty := newChart(noon, nil); latency(empty.Sum) != -1 || empty.Changes != "" || len(empty.Days) != 0 {
		t.Errorf("%+v", empty)
	}
}
