package daemon

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/cmd/resyncd/internal/config"
)

// configured as text says.
func configOf(t *testing.T, text string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "resyncd.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestRestartKeys: what belongs to the process is named, and nothing else.
func TestRestartKeys(t *testing.T) {
	t.Parallel()
	const before = `
callback: { listen: "127.0.0.1:1" }
sources:
  - { name: a, url: "https://a.example/", auth: { bearer: hunter2 } }
`
	for after, want := range map[string][]string{
		before: nil,
		`
callback: { listen: "127.0.0.1:1" }
defaults: { max_resource: 1GiB }
sources:
  - { name: b, url: "https://b.example/", push: off }
`: nil,
		`
data_dir: ./elsewhere
callback: { listen: "127.0.0.1:2", base_url: "https://m.example/cb" }
network: { allow: [10.0.0.0/8], idle_timeout: 10s }
console: { listen: "", token: other, hosts: [m.example] }
sources:
  - { name: a, url: "https://a.example/", auth: { bearer: hunter2 } }
`: {"data_dir", "mirror", "callback.listen", "callback.base_url", "console.listen", "console.token", "console.hosts", "network.idle_timeout", "network.allow"},
	} {
		if diff := cmp.Diff(want, restartKeys(configOf(t, before), configOf(t, after))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestReload: what is fetched, or how, begins a Source anew, also by way of the defaults; what is agreed with hubs stops
// nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	const before = `
callback: { listen: "127.0.0.1:1" }
sources:
  - { name: a, url: "https://a.example/", auth: { bearer: hunter2 } }
  - { name: b, url: "https://b.example/", include: ["**/x"] }
`
	for name, c := range map[string]struct {
		after string
		kept  []string // as they were
	}{
		"nothing": {after: before, kept: []string{"a", "b"}},
		"come and gone": {after: `
callback: { listen: "127.0.0.1:1" }
sources:
  - { name: a, url: "https://a.example/", auth: { bearer: hunter2 } }
  - { name: c, url: "https://b.example/", include: ["**/x"] }
`, kept: []string{"a"}},
		"url, filter and credentials": {after: `
callback: { listen: "127.0.0.1:1" }
sources:
  - { name: a, url: "https://a.example/", auth: { bearer: hunter3 } }
  - { name: b, url: "https://b.example/", include: ["**/y"] }
`},
		"what hubs have to know": {after: `
callback: { listen: "127.0.0.1:1" }
sources:
  - { name: a, url: "https://a.example/", auth: { bearer: hunter2 }, push: required, lease: 24h, min_signature: sha256 }
  - { name: b, url: "https://b.example/", include: ["**/x"] }
`, kept: []string{"a", "b"}},
		"hub and topic": {after: `
callback: { listen: "127.0.0.1:1" }
defaults: { lease: 24h }
sources:
  - { name: a, url: "https://a.example/", auth: { bearer: hunter2 }, hub: "https://hub.example/", topic: "https://a.example/t" }
  - { name: b, url: "https://b.example/", include: ["**/x"], secret: off }
`, kept: []string{"a", "b"}},
		"defaults reach the Sources": {after: before + "defaults: { max_resource: 1GiB }\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := idle(t)
			configured(t, d, configOf(t, before).Sources...)
			was := map[string]*runner{"a": d.sources.named("a"), "b": d.sources.named("b")}
			now := configOf(t, c.after).Sources
			configured(t, d, now...)
			var kept []string
			for _, s := range now {
				r := d.sources.named(s.Name)
				if r == nil {
					t.Fatalf("nobody is to follow %s", s.Name)
				}
				if !reflect.DeepEqual(*r.src.Load(), s) {
					t.Errorf("%s is followed by another configuration", s.Name)
				}
				if r == was[s.Name] {
					kept = append(kept, s.Name)
				}
			}
			if diff := cmp.Diff(c.kept, kept); diff != "" || len(d.sources.all()) != len(now) {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTopicOfFeed: the topic of a feed is also what is read, and so no mere agreement with a hub.
func TestTopicOfFeed(t *testing.T) {
	t.Parallel()
	d := idle(t)
	feed := config.Source{Name: "f", URL: "https://f.example/", Kind: config.KindFeed}
	configured(t, d, feed)
	before := d.sources.named("f")
	feed.Topic = "https://f.example/topic"
	configured(t, d, feed)
	if d.sources.named("f") == before {
		t.Error("it is read as before")
	}
}

// TestMerged: after a reload Sources are new, the process is what it was.
func TestMerged(t *testing.T) {
	t.Parallel()
	old := configOf(t, "data_dir: ./a\nsources:\n  - { name: a, url: \"https://a.example/\" }\n")
	now := configOf(t, "data_dir: ./b\nsources:\n  - { name: b, url: \"https://b.example/\" }\n")
	m := merged(old, now)
	if m.DataDir != "./a" || len(m.Sources) != 1 || m.Sources[0].Name != "b" || old.Sources[0].Name != "a" {
		t.Errorf("%+v", m)
	}
}
