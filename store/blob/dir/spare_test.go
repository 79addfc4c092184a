package dir

import (
	"os"
	"path/filepath"
	"testing"
)

// stages is the names of the files in the stage area of a mirror with one writer.
func stages(t *testing.T, path string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(path, ".resyncd", "stage", "*", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestSpare(t *testing.T) {
	t.Parallel()
	m, path := newMirror(t, Options{})
	for range 3 {
		m.Spare(t.Context())
	}
	spare := stages(t, path)
	if len(spare) != 1 {
		t.Fatalf("three calls made %q", spare)
	}
	first, second := staged(t, m, "first"), staged(t, m, "second")
	if got, err := os.ReadFile(spare[0]); err != nil || string(got) != "first" {
		t.Errorf("the spare stage has %q, %v: NewStage did not take it", got, err)
	}
	if all := stages(t, path); len(all) != 2 {
		t.Errorf("stages of two NewStages: %q", all)
	}
	first.Discard()
	second.Discard()
	m.Spare(t.Context())
	if err := m.Close(); err != nil || len(stages(t, path)) != 0 {
		t.Errorf("after Close: %v, %q", err, stages(t, path))
	}
	m.Spare(t.Context()) // of a closed mirror: nothing
}

// TestSpareOfBadTimes: a spare stage that somebody removed, or whose making a failed sync may have lost, is not handed out.
func TestSpareOfBadTimes(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(m *Mirror, file string){
		"removed":     func(_ *Mirror, file string) { os.Remove(file) },
		"failed sync": func(m *Mirror, _ string) { m.sync.failures.Add(1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, path := newMirror(t, Options{})
			m.Spare(t.Context())
			spare := stages(t, path)
			spoil(m, spare[0])
			put(t, m, "k", "x")
			if got := disk(t, path, "k"); got != "x" {
				t.Errorf("placed %q", got)
			}
			if left := stages(t, path); len(left) != 0 {
				t.Errorf("left in the stage area: %q", left)
			}
		})
	}
}
