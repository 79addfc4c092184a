package mirror

import (
	"log/slog"
	"os"
	"path/filepath"
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
