package main

import (
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/sync/report"
)

// update writes the manual page: go test ./cmd/resyncd -run TestPackagedManual -update
var update = flag.Bool("update", false, "write the packaged file that is made from the commands")

// TestPackagedManual: the manual page is that of the commands as they are.
func TestPackagedManual(t *testing.T) {
	const name = "resyncd.1"
	want, err := manual(commands())
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(filepath.Join("packaging", name), want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(want), string(packaged(t, name))); diff != "" {
		t.Errorf("%s is not current: go test ./cmd/resyncd -run TestPackagedManual -update\n%s", name, diff)
	}
}

func packaged(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("packaging", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// tool finds a program that a test needs, or skips the test.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

// runTool runs a program in packaging and insists that it is content.
func runTool(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tool(t, name), args...)
	cmd.Dir = "packaging"
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// rules is the form of a file of Prometheus rules.
type rules struct {
	Groups []ruleGroup `yaml:"groups"`
}

type ruleGroup struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

type rule struct {
	Alert       string            `yaml:"alert,omitempty"`
	Record      string            `yaml:"record,omitempty"`
	Expr        string            `yaml:"expr"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
}

func alerts(t *testing.T) []rule {
	t.Helper()
	var r rules
	if err := yaml.Unmarshal(packaged(t, "alerts.yaml"), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Groups) != 1 || len(r.Groups[0].Rules) < 10 {
		t.Fatal("alerts.yaml is not what it was")
	}
	return r.Groups[0].Rules
}

// expressions are the queries of the dashboard.
func expressions(t *testing.T) []string {
	t.Helper()
	var board any
	if err := json.Unmarshal(packaged(t, "grafana.json"), &board); err != nil {
		t.Fatal(err)
	}
	var out []string
	var look func(any)
	look = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				look(x)
			}
		case map[string]any:
			for key, x := range v {
				if s, ok := x.(string); ok && (key == "expr" || key == "definition") {
					out = append(out, s)
				}
				look(x)
			}
		}
	}
	look(board)
	if len(out) < 30 {
		t.Fatalf("the dashboard asks only %d things", len(out))
	}
	return out
}

// shown are the metrics of a daemon with one Source, by name, a histogram's series too.
func shown(t *testing.T) map[string]bool {
	t.Helper()
	m := console.NewMetrics()
	m.Build("v", "c")
	m.Begin("lib")
	now := time.Now()
	m.Gauges = func(context.Context) []console.SourceGauges {
		lease := []report.ChannelStatus{{State: "active", ExpiresAt: report.Time{Time: now}}}
		return []console.SourceGauges{{SourceStatus: report.SourceStatus{Name: "lib", Sets: []report.SetStatus{{Channels: lease}}}, Totals: console.Totals{Position: now, LastPull: now, NextPull: now, LastPush: now}}}
	}
	answer := httptest.NewRecorder()
	console.New(console.Options{Metrics: m}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	out := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(answer.Body.String(), -1) {
		out[found[1]] = true
		if found[2] == "histogram" {
			out[found[1]+"_bucket"], out[found[1]+"_sum"], out[found[1]+"_count"] = true, true, true
		}
	}
	return out
}

// TestPackagedMetrics: rules and dashboard ask for nothing that is not there, and every alert says what to do.
func TestPackagedMetrics(t *testing.T) {
	known := shown(t)
	asked := expressions(t)
	for _, r := range alerts(t) {
		asked = append(asked, r.Expr, r.Annotations["summary"]+r.Annotations["action"])
		if r.Annotations["summary"] == "" || r.Annotations["action"] == "" || r.Labels["severity"] == "" {
			t.Errorf("%s does not say what is the matter, what to do and how bad it is", r.Alert)
		}
	}
	name := regexp.MustCompile(`\b(resyncd|process|go)_[a-z0-9_]+\b`)
	used := map[string]bool{}
	for _, expr := range asked {
		for _, metric := range name.FindAllString(expr, -1) {
			used[metric] = true
			if !known[metric] {
				t.Errorf("there is no metric %s, of which %q speaks", metric, expr)
			}
		}
	}
	for _, metric := range []string{"resyncd_owed", "resyncd_held", "resyncd_gaps_open", "resyncd_in_step", "resyncd_push_latency_seconds_bucket"} {
		if !used[metric] {
			t.Errorf("nothing shows %s", metric)
		}
	}
}

// TestPackagedAlerts has Prometheus' own tool test the rules, and read the dashboard's queries.
func TestPackagedAlerts(t *testing.T) {
	t.Parallel()
	tool(t, "promtool")
	if got := runTool(t, "promtool", "test", "rules", "alerts_test.yaml"); !strings.Contains(got, "SUCCESS") {
		t.Error(got)
	}
	tests := string(packaged(t, "alerts_test.yaml"))
	for _, r := range alerts(t) {
		if !strings.Contains(tests, "name: "+r.Alert+"\n") {
			t.Errorf("alerts_test.yaml does not test %s", r.Alert)
		}
	}
	var r rules
	r.Groups = []ruleGroup{{Name: "dashboard"}}
	for _, expr := range expressions(t) {
		if strings.HasPrefix(expr, "label_values(") {
			continue
		}
		expr = strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$source", ".*").Replace(expr)
		r.Groups[0].Rules = append(r.Groups[0].Rules, rule{Record: "asked", Expr: expr, Labels: map[string]string{"expr": expr}})
	}
	text, err := yaml.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	runTool(t, "promtool", "check", "rules", file)
}

// TestPackagedUnits has systemd read its units, with a program that is there on every machine.
func TestPackagedUnits(t *testing.T) {
	t.Parallel()
	tool(t, "systemd-analyze")
	dir := t.TempDir()
	var files []string
	for _, name := range []string{"resyncd.service", "resyncd-callback.socket"} {
		text := strings.ReplaceAll(string(packaged(t, name)), "/usr/local/bin/resyncd", "/bin/true")
		text = regexp.MustCompile(`(?m)^Documentation=.*\n`).ReplaceAllString(text, "") // which it would want to open
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	if out := runTool(t, "systemd-analyze", append([]string{"verify"}, files...)...); strings.TrimSpace(out) != "" {
		t.Error(out)
	}
	// The socket must reach the daemon under the name that it looks for (callback.Listen), where it would listen itself.
	socket := string(packaged(t, "resyncd-callback.socket"))
	for _, want := range []string{"\nFileDescriptorName=callback\n", "\nListenStream=" + config.Default().Callback.Listen + "\n", "\nService=resyncd.service\n"} {
		if !strings.Contains(socket, want) {
			t.Errorf("no %q in the socket unit", strings.TrimSpace(want))
		}
	}
}

// TestPackagedCompose: the demo's configuration is valid, and what it mounts is there.
func TestPackagedCompose(t *testing.T) {
	t.Parallel()
	var compose struct {
		Services map[string]struct {
			Configs []struct{ Source string }
			Volumes []string
			Command []string
		}
		Configs map[string]struct{ Content string }
	}
	if err := yaml.Unmarshal(packaged(t, "compose.yaml"), &compose); err != nil {
		t.Fatal(err)
	}
	for name, s := range compose.Services {
		for _, c := range s.Configs {
			if compose.Configs[c.Source].Content == "" {
				t.Errorf("%s wants the configuration %s", name, c.Source)
			}
		}
		for _, v := range s.Volumes {
			if from, _, _ := strings.Cut(v, ":"); strings.HasPrefix(from, "./") {
				packaged(t, from)
			}
		}
	}
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	file := filepath.Join(dir, "resyncd.yaml")
	text := strings.ReplaceAll(compose.Configs["resyncd"].Content, "/etc/resyncd/console-token", token)
	for name, content := range map[string]string{token: compose.Configs["console-token"].Content, file: text} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Sources) != 1 || len(compose.Services) < 5 {
		t.Errorf("%d Sources, %d services", len(cfg.Sources), len(compose.Services))
	}
}

// TestPackagedRelease: the release builds what there is and archives what there is.
func TestPackagedRelease(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var release struct {
		Builds []struct {
			Main, Binary string
			Ldflags      []string
		}
		Archives []struct{ Files []any }
	}
	if err := yaml.Unmarshal(text, &release); err != nil {
		t.Fatal(err)
	}
	var built []string
	for _, b := range release.Builds {
		built = append(built, b.Binary)
		if b.Main != "./cmd/"+b.Binary {
			t.Errorf("%s is built from %s", b.Binary, b.Main)
		}
	}
	if diff := cmp.Diff([]string{"resyncd", "rssource", "rshub"}, built); diff != "" {
		t.Error(diff)
	}
	for _, f := range release.Archives[0].Files {
		src, _ := f.(string)
		if m, ok := f.(map[string]any); ok {
			src, _ = m["src"].(string)
		}
		if found, err := filepath.Glob(filepath.Join("../..", src)); err != nil || len(found) == 0 {
			t.Errorf("the archive wants %q, which is not there (%v)", src, err)
		}
	}
}

// TestVersion: a build that nobody named, of the program or of its image, is one of the newest version in the changelog.
func TestVersion(t *testing.T) {
	t.Parallel()
	changes, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	newest := regexp.MustCompile(`(?m)^## (.*)$`).FindSubmatch(changes)
	if newest == nil || !regexp.MustCompile(`^\d+\.\d+$`).Match(newest[1]) {
		t.Fatal("the changelog names no version first")
	}
	want := string(newest[1]) + ".0-dev"
	if version != want {
		t.Errorf("version is %s, want %s", version, want)
	}
	if image := string(packaged(t, "Dockerfile")); !strings.Contains(image, " VERSION="+want+" ") {
		t.Errorf("the image's VERSION is not %s", want)
	}
}

// TestPackagedImage: the image is built by the Go that go.mod wants, runs as nobody, and asks itself how it is.
func TestPackagedImage(t *testing.T) {
	t.Parallel()
	image := string(packaged(t, "Dockerfile"))
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	for _, want := range []string{" golang:" + string(version[1]) + " AS build", "\nFROM scratch\n", "\nUSER 65532:65532\n",
		`CMD ["/usr/local/bin/resyncd", "healthcheck"]`, "ca-certificates.crt", "CGO_ENABLED=0"} {
		if !strings.Contains(image, want) {
			t.Errorf("no %q in the Dockerfile", strings.TrimSpace(want))
		}
	}
}
