package sync

import (
	"os"
	"path/filepath"
	"testing"

	"resyncd/destination/peer/source"
	"resyncd/sync/keymap"
)

// TestSpoiltThenDeleted: a file that is not what it was, and could not be fetched anew, goes when the Source deletes the
// resource, though the run that found it ended in good order: no row may forget a file that is still there (P1).
func TestSpoiltThenDeleted(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string) error{
		"changed": func(path string) error { return os.WriteFile(path, []byte("rot"), 0o600) },
		"missing": os.Remove,
		"a folder": func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSettled(t, source.Options{}, many(3))
			p.stop()
			key, err := keymap.NaturalKey(p.src.URI("a.txt"))
			if err != nil {
				t.Fatal(err)
			}
			if err := spoil(filepath.Join(p.root, filepath.FromSlash(key))); err != nil {
				t.Fatal(err)
			}
			p.put("a.txt", "newer than what the state knows of it")
			p.with(func(e *Engine, target Target) {
				rep, err := e.Verify(t.Context(), target, p.opts, true, func(Finding) error { return nil })
				if err != nil || rep.InStep || rep.Problems != rep.Repaired+1 {
					t.Errorf("repaired what cannot be: %+v, %v", rep, err)
				}
			})
			p.src.Delete("a.txt")
			p.follow()
			p.pull(false)
			p.eventually("gone", func() bool { return p.same() && p.quiet() })
		})
	}
}
