package mirror

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/store/blob/dir"
	"resyncd/store/sqlite"
	syncengine "resyncd/sync"
)

// TestFooting: files without a row are ours only where the state was lost, whatever was killed at the start of the run before.
func TestFooting(t *testing.T) {
	t.Parallel()
	recorded := func(t *testing.T, o *Opened) { // as a daemon does first
		if _, err := o.Engine.Store.EnsureSource(t.Context(), o.Source.Name, o.Source.URL); err != nil {
			t.Fatal(err)
		}
	}
	marked := func(t *testing.T, o *Opened) {
		if _, err := dir.Create(o.Root); err != nil {
			t.Fatal(err)
		}
	}
	made := func(t *testing.T, o *Opened) { // and killed before the run begins
		if err := o.MakeMirror(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := o.Target.Mirror.Close(); err != nil {
			t.Fatal(err)
		}
	}
	slip := func(t *testing.T, o *Opened) { o.begun = true; made(t, o); o.begun = false }
	type steps []func(*testing.T, *Opened)
	for name, tc := range map[string]struct {
		before       steps
		adopt, sweep bool
	}{
		"a folder of others":                  {nil, true, false},
		"the same, killed early":              {steps{recorded}, true, false},
		"the same, killed later":              {steps{made}, true, false},
		"the same, recorded before":           {steps{recorded, made}, true, false},
		"a lost state":                        {steps{marked}, true, true},
		"a lost state, recorded by a daemon":  {steps{marked, recorded}, true, true},
		"a lost state, killed later":          {steps{marked, recorded, made}, true, true},
		"a slip, killed before the right one": {steps{marked, slip}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), StateFile), sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = st.Close() }()
			if err := os.WriteFile(filepath.Join(folder, "mine"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			engine := &syncengine.Engine{Store: st, Log: slog.New(slog.DiscardHandler), Holder: "test", Now: time.Now}
			o := Over(engine, Place{Source: config.Source{Name: "lib", URL: "https://lib.example/"}, Root: folder})
			for _, step := range tc.before {
				if err := o.Identify(t.Context()); err != nil {
					t.Fatal(err)
				}
				step(t, o)
			}
			if err := o.Identify(t.Context()); err != nil {
				t.Fatal(err)
			}
			f, err := o.rootState()
			if err != nil || f.adopt != tc.adopt || f.sweep != tc.sweep {
				t.Errorf("adopt %v, sweep %v, %v", f.adopt, f.sweep, err)
			}
		})
	}
}

// TestFill: what is configured of content reaches the engine, and the host of a batch endpoint is trusted as written down.
func TestFill(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "resyncd.yaml")
	if err := os.WriteFile(file, []byte(`
sources:
  - { name: a, url: "https://a.example/" }
  - { name: b, url: "https://b.example/", dumps: always, max_dump: 2MiB, duplicates: prefer, patches: off,
      collections: ["urn:x"], metadata: only, batch: "http://10.0.0.1/batch", batch_size: 7 }
`), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	filled := func(s config.Source) syncengine.Target {
		o := Opened{Place: Place{Config: cfg, Source: s}}
		o.Fill()
		return o.Target
	}
	is := func(got syncengine.Target, dumps string, most int64, duplicates string, patches bool, collections []string,
		metadata, batch string, size int) {
		t.Helper()
		if got.Dumps != dumps || got.MaxDump != most || got.Duplicates != duplicates || got.Patches != patches ||
			!slices.Equal(got.Collections, collections) || got.Metadata != metadata || got.Batch != batch ||
			got.BatchSize != size {
			t.Errorf("%+v", got)
		}
	}
	is(filled(cfg.Sources[0]), "auto", 0, "fallback", true, nil, "with", "", 100)
	is(filled(cfg.Sources[1]), "always", 2<<20, "prefer", false, []string{"urn:x"}, "only", "http://10.0.0.1/batch", 7)
	if p := PolicyOf(&cfg.Sources[1]); !slices.Contains(p.Trusted, "10.0.0.1") {
		t.Errorf("%q", p.Trusted)
	}
}
