package daemon

import (
	"os"
	"path/filepath"
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

func sourceNames(ss []config.Source) []string {
	var out []string
	for _, s := range ss {
		out = append(out, s.Name)
	}
	return out
}

// TestCompareConfigs: what is agreed with hubs stops nothing, what is fetched begins a new Follower, and what belongs to
// the process is named.
func TestCompareConfigs(t *testing.T) {
	t.Parallel()
	const before = `
callback: { listen: "127.0.0.1:1" }
sources:
  - { name: a, url: "https://a.example/", auth: { bearer: hunter2 } }
  - { name: b, url: "https://b.example/", include: ["**/x"] }
`
	for name, c := range map[string]struct {
		after                                  string
		added, removed, anew, agreed, restarts []string
	}{
		"the same": {after: before},
		"another order": {after: `
callback: { listen: "127.0.0.1:1" }
sources:
  - { name: b, url: "https://b.example/", include: ["**/x"] }
  - { name: a, url: "https://a.example/", auth: { bearer: hunter2 } }
`},
		"one in place of the other": {after: `
callback: { listen: "127.0.0.1:1" }
sources:
  - { name: a, url: "https://a.example/", auth: { bearer: hunter2 } }
  - { name: c, url: "https://b.example/", include: ["**/x"] }
`, added: []string{"c"}, removed: []string{"b"}},
		"url, filter and credentials": {after: `
callback: { listen: "127.0.0.1:1" }
sources:
  - { name: a, url: "https://a.example/", auth: { bearer: hunter3 } }
  - { name: b, url: "https://b.example/", include: ["**/y"] }
`, anew: []string{"a", "b"}},
		"what hubs have to know": {after: `
callback: { listen: "127.0.0.1:1" }
sources:
  - { name: a, url: "https://a.example/", auth: { bearer: hunter2 }, push: required, lease: 24h, min_signature: sha256 }
  - { name: b, url: "https://b.example/", include: ["**/x"], secret: off, hub: "https://hub.example/" }
`, agreed: []string{"a", "b"}},
		"both": {after: `
callback: { listen: "127.0.0.1:1" }
sources:
  - { name: a, url: "https://a.example/", auth: { bearer: hunter2 }, push: off, schedule: "@hourly" }
  - { name: b, url: "https://b.example/", include: ["**/x"] }
`, anew: []string{"a"}},
		"defaults reach the Sources": {after: before + "defaults: { max_resource: 1GiB }\n", anew: []string{"a", "b"}},
		"what needs a restart": {after: `
data_dir: ./elsewhere
callback: { listen: "127.0.0.1:2", base_url: "https://m.example/cb" }
network: { allow: [10.0.0.0/8], idle_timeout: 10s }
console: { listen: "" }
sources:
  - { name: a, url: "https://a.example/", auth: { bearer: hunter2 } }
  - { name: b, url: "https://b.example/", include: ["**/x"] }
`, restarts: []string{"data_dir", "mirror", "callback.listen", "callback.base_url", "console.listen", "network.allow", "network.idle_timeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := compareConfigs(configOf(t, before), configOf(t, c.after))
			for _, part := range []struct {
				what      string
				got, want []string
			}{
				{"added", sourceNames(d.added), c.added}, {"removed", d.removed, c.removed}, {"anew", sourceNames(d.anew), c.anew},
				{"agreed", sourceNames(d.agreed), c.agreed}, {"restart", d.restart, c.restarts},
			} {
				if diff := cmp.Diff(part.want, part.got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", part.what, diff)
				}
			}
		})
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
