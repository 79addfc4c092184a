package rsdoc

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"resyncd/destination/fuzztest"
)

func TestParseMicros(t *testing.T) {
	t.Parallel()
	good := []struct{ in, want string }{
		{"2013", "2013-01-01T00:00:00Z"},
		{"2013-02", "2013-02-01T00:00:00Z"},
		{"2013-01-03", "2013-01-03T00:00:00Z"},
		{"2013-01-03T09:00Z", "2013-01-03T09:00:00Z"},
		{"2013-01-03T09:00:07Z", "2013-01-03T09:00:07Z"},
		{"2013-01-03t09:00:07z", "2013-01-03T09:00:07Z"},
		{"2013-01-03T09:00:07.5Z", "2013-01-03T09:00:07.5Z"},
		{"2013-01-03T09:00:07.500000Z", "2013-01-03T09:00:07.5Z"},
		{"2013-01-03T09:00:07.000000Z", "2013-01-03T09:00:07Z"},
		{"2013-01-03T09:00:07.1234569999Z", "2013-01-03T09:00:07.123456Z"},
		{"2013-01-03T09:00:07." + strings.Repeat("9", 500) + "Z", "2013-01-03T09:00:07.999999Z"},
		{"2013-01-03T09:00+01:00", "2013-01-03T08:00:00Z"},
		{"2013-01-03T23:30:00-05:45", "2013-01-04T05:15:00Z"},
		{"2013-01-03T09:00:00-00:00", "2013-01-03T09:00:00Z"},
		{" \t\r\n2013-01-03T09:00:00Z\n ", "2013-01-03T09:00:00Z"},
		{"2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"},
		{"2016-12-31T23:59:60.25Z", "2017-01-01T00:00:00.25Z"},
		{"2012-02-29", "2012-02-29T00:00:00Z"},
		{"2000-02-29", "2000-02-29T00:00:00Z"},
		{"0000", "0000-01-01T00:00:00Z"},
		{"0000-02-29T23:59:59Z", "0000-02-29T23:59:59Z"},
		{"0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"},
		{"1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"},
		{"9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.999999Z"},
	}
	for _, c := range good {
		m, err := ParseMicros(c.in)
		if err != nil || m.String() != c.want {
			t.Errorf("ParseMicros(%q) = %s, %v; want %s", c.in, m, err, c.want)
		}
		if b, fault := parseMicros([]byte(c.in)); fault != "" || b != m {
			t.Errorf("parseMicros(%q) = %s, %s; want %s", c.in, b, fault, m)
		}
	}
	bad := []string{
		"", " ", "13", "213", "02013", "20133", "12013-01-01", "+2013", "-2013", "2013-", "2013-1", "2013-13", "2013-00",
		"2013-01-", "2013-01-1", "2013-01-00", "2013-01-32", "2013-04-31", "2013-02-29", "1900-02-29", "2013/01/03",
		"20130103", "2013-01-03T", "2013-01-03Z", "2013-01-03T09", "2013-01-03T09Z", "2013-01-03T9:00Z", "2013-01-03T09:0Z",
		"2013-01-03T09:00", "2013-01-03T09:00:00", "2013-01-03T09:00:0Z", "2013-01-03T24:00:00Z", "2013-01-03T09:60:00Z",
		"2013-01-03T09:00:61Z", "2013-01-03T09:00:00,5Z", "2013-01-03T09:00:00.Z", "2013-01-03T09:00.5Z",
		"2013-01-03T09:00:00.5", "2013-01-03T09:00:00ZZ", "2013-01-03T09:00:00+1:00", "2013-01-03T09:00:00+0100",
		"2013-01-03T09:00:00+01", "2013-01-03T09:00:00+24:00", "2013-01-03T09:00:00+01:60", "2013-01-03T09:00:00 Z",
		"2013-01-03 09:00:00Z", "2013-01-03T09:00:00UTC", "Thu, 03 Jan 2013 09:00:00 GMT", "9999-12-31T23:59:60Z",
		"9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00+00:01", "٢٠١٣", "2013-01-03T09:00:00\x00Z", "9223372036854775807",
	}
	for _, in := range bad {
		if m, err := ParseMicros(in); err == nil || m != NoTime {
			t.Errorf("ParseMicros(%q) = %s, %v; want an error", in, m, err)
		}
	}
}

func TestParseMicrosAllocatesNothing(t *testing.T) {
	b := []byte(" 2013-01-03T09:00:07.123456789+01:00 ")
	if n := testing.AllocsPerRun(100, func() { _, _ = parseMicros(b) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestMicrosAndTime(t *testing.T) {
	t.Parallel()
	if NoTime.Known() || NoTime.String() != "" || !NoTime.Time().IsZero() || MicrosOf(time.Time{}) != NoTime {
		t.Error("NoTime is not the zero time")
	}
	if got := MicrosOf(time.Unix(math.MaxInt64/2, 0)); got != math.MaxInt64 {
		t.Errorf("far future is %d", got)
	}
	if got := MicrosOf(time.Unix(math.MinInt64/2, 0)); !got.Known() || got > 0 {
		t.Errorf("far past is %d", got)
	}
	if got := MicrosOf(time.Date(1969, 12, 31, 23, 59, 59, 999_999_999, time.UTC)); got != -1 {
		t.Errorf("the nanosecond before 1970 is %d, want -1", got)
	}
}

// What String writes ParseMicros reads; and it agrees with the standard library on everything that both read.
func TestDatetimeLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := Micros(rapid.Int64Range(int64(minDatetime), int64(maxDatetime)).Draw(t, "m"))
		back, err := ParseMicros(m.String())
		if err != nil || back != m {
			t.Fatalf("%d is %q, read as %d, %v", m, m, back, err)
		}
		zone := time.FixedZone("", 60*rapid.IntRange(-14*60, 14*60).Draw(t, "zone"))
		local := m.Time().In(zone)
		if y := local.Year(); y < 0 || y > 9999 {
			return
		}
		if back, err := ParseMicros(local.Format(time.RFC3339Nano)); err != nil || back != m {
			t.Fatalf("%s is read as %s, %v", local.Format(time.RFC3339Nano), back, err)
		}
		if !m.Time().IsZero() && MicrosOf(local) != m {
			t.Fatalf("MicrosOf(%s) = %d, want %d", local, MicrosOf(local), m)
		}
	})
}

func FuzzParseMicros(f *testing.F) {
	for _, s := range []string{"2013", "2013-02", "2012-02-29", "2013-01-03T09:00Z", "2016-12-31T23:59:60.25+01:00", " 9999-12-31T23:59:59.9999999Z", "T", "2013-01-03T09:00:07,5Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		fuzztest.Bound(t)
		m, err := ParseMicros(s)
		if err != nil {
			if m.Known() {
				t.Fatalf("%q: an instant and an error", s)
			}
			return
		}
		if back, err := ParseMicros(m.String()); err != nil || back != m {
			t.Fatalf("%q is %s, read back as %s, %v", s, m, back, err)
		}
		if std, err := time.Parse(time.RFC3339Nano, trimSpace(s)); err == nil && MicrosOf(std) != m && !std.IsZero() {
			t.Fatalf("%q is %s, and %s for package time", s, m, std)
		}
	})
}
