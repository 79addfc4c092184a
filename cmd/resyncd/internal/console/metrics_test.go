package console

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"resyncd/sync/report"
)

// stands is a Source in step with two active channels.
func stands(name string, lease report.Time) report.SourceStatus {
	channels := []report.ChannelStatus{{State: "active", ExpiresAt: lease}, {State: "active"}}
	return report.SourceStatus{Name: name, Sets: []report.SetStatus{{InStep: true, Channels: channels}}}
}

// eventful is metrics in which every series of ours is there.
func eventful() *Metrics {
	m := NewMetrics()
	for _, source := range []string{"a", "b\xff"} {
		m.Count(Notifications, source, "next", 2)
		m.Count(Notifications, source, "gap\xfe", 1)
		m.Count(Rejections, source, "signature", 1)
		m.Observe(PushLatency, source, 3*time.Millisecond)
		m.Observe(PushLatency, source, -time.Hour)
		m.Count(Fetches, source, "ok", 1)
		m.Count(PushMisses, source, "", 3)
		m.Count(PushMisses, source, "", 0)
		m.Count(PushMisses, source, "", -1)
	}
	m.Count(ClockJumps, "", "", 2)
	m.Build("1.2.3", "abc")
	m.Gauges = func(context.Context) []SourceGauges {
		return []SourceGauges{
			{
				SourceStatus: stands("a", report.TimeOf(1_800_000_000e6)),
				Totals: Totals{
					Resources: 5, Owed: 1, Held: 2, GapsOpen: 3, Position: time.UnixMicro(1_700_000_000_250_000),
					LastPull: time.Unix(1, 0), NextPull: time.Unix(2, 0), LastPush: time.Unix(3, 0),
				},
			},
			{SourceStatus: report.SourceStatus{Name: "b\xff"}},
			{SourceStatus: stands("a", report.Time{}), Totals: Totals{Resources: 6, Owed: 1, Held: 2, GapsOpen: 3}}, // told twice: the last word counts
		}
	}
	return m
}

const shown = `
# HELP resyncd_clock_jumps_total Times that the wall clock jumped, or the machine slept.
# TYPE resyncd_clock_jumps_total counter
resyncd_clock_jumps_total 2
# HELP resyncd_in_step 1 while the mirror is known to be in step with the Source, else 0.
# TYPE resyncd_in_step gauge
resyncd_in_step{source="a"} 1
resyncd_in_step{source="b?"} 0
# HELP resyncd_fetches_total Resources fetched, by result.
# TYPE resyncd_fetches_total counter
resyncd_fetches_total{result="ok",source="a"} 1
resyncd_fetches_total{result="ok",source="b?"} 1
# HELP resyncd_gaps_open Holes in what was heard of the Source that are not closed.
# TYPE resyncd_gaps_open gauge
resyncd_gaps_open{source="a"} 3
resyncd_gaps_open{source="b?"} 0
# HELP resyncd_held Files that wait for an operator's word before they are deleted.
# TYPE resyncd_held gauge
resyncd_held{source="a"} 2
resyncd_held{source="b?"} 0
# HELP resyncd_lease_expires_timestamp_seconds When the first lease of the active channels ends.
# TYPE resyncd_lease_expires_timestamp_seconds gauge
resyncd_lease_expires_timestamp_seconds{source="a"} 1.8e+09
# HELP resyncd_notifications_rejected_total Notifications not taken, by reason.
# TYPE resyncd_notifications_rejected_total counter
resyncd_notifications_rejected_total{reason="signature",source="a"} 1
resyncd_notifications_rejected_total{reason="signature",source="b?"} 1
# HELP resyncd_notifications_total Notifications taken, by what their interval means for the position.
# TYPE resyncd_notifications_total counter
resyncd_notifications_total{source="a",verdict="gap?"} 1
resyncd_notifications_total{source="a",verdict="next"} 2
resyncd_notifications_total{source="b?",verdict="gap?"} 1
resyncd_notifications_total{source="b?",verdict="next"} 2
# HELP resyncd_owed Resources that the Source has and the mirror does not, or not as they are.
# TYPE resyncd_owed gauge
resyncd_owed{source="a"} 1
resyncd_owed{source="b?"} 0
# HELP resyncd_position_timestamp_seconds Source time up to which all changes are known.
# TYPE resyncd_position_timestamp_seconds gauge
resyncd_position_timestamp_seconds{source="a"} 1.70000000025e+09
# HELP resyncd_push_misses_total Changes first seen by a pull although a channel was active.
# TYPE resyncd_push_misses_total counter
resyncd_push_misses_total{source="a"} 3
resyncd_push_misses_total{source="b?"} 3
# HELP resyncd_resources Resources of the Source that are in the mirror.
# TYPE resyncd_resources gauge
resyncd_resources{source="a"} 6
resyncd_resources{source="b?"} 0
`

var names = []string{
	"resyncd_resources", "resyncd_owed", "resyncd_held", "resyncd_gaps_open", "resyncd_position_timestamp_seconds", "resyncd_notifications_total",
	"resyncd_notifications_rejected_total", "resyncd_push_latency_seconds", "resyncd_fetches_total", "resyncd_lease_expires_timestamp_seconds",
	"resyncd_push_misses_total", "resyncd_in_step", "resyncd_clock_jumps_total",
}

func all(t *testing.T, m *Metrics) prometheus.Gatherer {
	return prometheus.Gatherers{m.registry, m.gauges(t.Context())}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	m := eventful()
	var compared []string
	for _, name := range names {
		if n, err := testutil.GatherAndCount(all(t, m), name); err != nil || n == 0 {
			t.Errorf("%s: %d series, %v", name, n, err)
		}
		if name != "resyncd_push_latency_seconds" {
			compared = append(compared, name)
		}
	}
	if err := testutil.GatherAndCompare(all(t, m), strings.NewReader(shown), compared...); err != nil {
		t.Error(err)
	}
}

// TestLint: every series there can be keeps to the conventions of Prometheus, ours and only ours begin with resyncd_, and
// none has a label whose values nobody bounds.
func TestLint(t *testing.T) {
	t.Parallel()
	m := eventful()
	m.Begin("a")
	for e := range m.counters {
		for _, value := range append(metrics()[string(e)].Known, "") {
			m.Count(e, "a", value, 1)
		}
	}
	families, err := all(t, m).Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	bounded := []string{"source", "verdict", "reason", "result", "state", "by", "job", "transport", "version", "commit", "goversion", "le"}
	ours := 0
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "resyncd_") {
			continue
		}
		ours++
		if !strings.HasSuffix(f.GetHelp(), ".") {
			t.Errorf("%s: %q is no sentence", f.GetName(), f.GetHelp())
		}
		for _, series := range f.GetMetric() {
			for _, l := range series.GetLabel() {
				if !slices.Contains(bounded, l.GetName()) {
					t.Errorf("%s has the label %s", f.GetName(), l.GetName())
				}
			}
		}
	}
	if want := len(metrics()) + 1; ours != want {
		t.Errorf("%d families of ours, want %d", ours, want)
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	m := eventful()
	m.Gauges = nil
	m.Forget("a")
	m.Forget("never was")
	for _, name := range []string{"resyncd_notifications_total", "resyncd_notifications_rejected_total", "resyncd_push_latency_seconds", "resyncd_fetches_total", "resyncd_push_misses_total"} {
		body := ask(New(Options{Metrics: m}), "GET", "/metrics").Body.String()
		if strings.Contains(body, `source="a"`) || !strings.Contains(body, name) {
			t.Errorf("%s: %s", name, body)
		}
	}
}

// TestScrape: as Prometheus sees it, process and runtime included.
func TestScrape(t *testing.T) {
	t.Parallel()
	w := ask(New(Options{Metrics: eventful()}), "GET", "/metrics")
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	for _, line := range []string{
		`resyncd_push_latency_seconds_bucket{source="a",le="0.005"} 2`, `resyncd_push_latency_seconds_bucket{source="a",le="0.001"} 1`,
		`resyncd_push_latency_seconds_count{source="a"} 2`, `resyncd_owed{source="a"} 1`, "go_goroutines ",
	} {
		if !strings.Contains(w.Body.String(), line) {
			t.Errorf("no %s", line)
		}
	}
}

// TestTwoInOneProcess: nothing is kept in the library's global registry.
func TestTwoInOneProcess(t *testing.T) {
	t.Parallel()
	one, two := NewMetrics(), NewMetrics()
	one.Count(Fetches, "a", "ok", 1)
	if n, err := testutil.GatherAndCount(two.registry, "resyncd_fetches_total"); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// TestOddSeries: what the library cannot show is logged, and hides nothing else.
func TestOddSeries(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	m := eventful()
	m.registry.MustRegister(odd{})
	w := ask(New(Options{Metrics: m, Log: slog.New(slog.NewTextHandler(&log, nil))}), "GET", "/metrics")
	if w.Code != 200 || !strings.Contains(w.Body.String(), `resyncd_owed{source="a"} 1`) || !strings.Contains(log.String(), "a bug of ours") {
		t.Errorf("%d, logged %q: %s", w.Code, &log, w.Body)
	}
}

// odd is a collector that fails.
type odd struct{}

var oddDesc = prometheus.NewDesc("odd", "Odd.", nil, nil)

func (odd) Describe(to chan<- *prometheus.Desc) { to <- oddDesc }

func (odd) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.NewInvalidMetric(oddDesc, errors.New("a bug of ours"))
}

// TestBegin: a Source that nothing happened to yet has its counters, at 0.
func TestBegin(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	m.Begin("lib")
	rec := httptest.NewRecorder()
	New(Options{Metrics: m}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`resyncd_notifications_total{source="lib",verdict="gap"} 0`, `resyncd_notifications_rejected_total{reason="signature",source="lib"} 0`,
		`resyncd_fetches_total{result="failed",source="lib"} 0`, `resyncd_push_misses_total{source="lib"} 0`,
		`resyncd_push_latency_seconds_count{source="lib"} 0`,
	} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestTableOfMetrics: every metric that the code names has its line in the table.
func TestTableOfMetrics(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`"(resyncd_[a-z_]+)"`).FindAllSubmatch(source, -1)
	for _, name := range named {
		if metrics()[string(name[1])] == nil && string(name[1]) != "resyncd_build_info" {
			t.Errorf("%s is not in metrics.yaml", name[1])
		}
	}
	if len(named) != len(metrics())+1 {
		t.Errorf("%d metrics are named, %d are in the table", len(named)-1, len(metrics()))
	}
}
