package dir

import (
	"os"
	"path/filepath"
	"testing"

	"resyncd/store/blob"
	"resyncd/store/blob/blobtest"
)

// newRoot makes a root and returns its path and id.
func newRoot(t testing.TB) (path, id string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "mirror")
	id, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, id
}

// open opens a root until the end of the test.
func open(t testing.TB, path, id string, opt Options) *Mirror {
	t.Helper()
	m, err := Open(path, id, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return m
}

// newMirror makes and opens a root.
func newMirror(t testing.TB, opt Options) (*Mirror, string) {
	t.Helper()
	path, id := newRoot(t)
	return open(t, path, id, opt), path
}

// put places one file.
func put(t testing.TB, m *Mirror, key, text string) {
	t.Helper()
	errs, err := m.Place(t.Context(), []blob.Placement{{Stage: staged(t, m, text), Key: key}})
	if err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
}

// staged makes a stage that holds text.
func staged(t testing.TB, m *Mirror, text string) blob.Stage {
	t.Helper()
	s, err := m.NewStage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return s
}

// disk reads a file without asking the mirror.
func disk(t testing.TB, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestContract(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opt  Options
	}{
		{"durable", Options{}},
		{"not durable, one folder open", Options{folders: 1, Unsynced: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			blobtest.Run(t, func(t testing.TB) blob.Mirror {
				m, _ := newMirror(t, c.opt)
				return m
			})
		})
	}
}

func TestSpoolsAreKept(t *testing.T) {
	t.Parallel()
	path, id := newRoot(t)
	blobtest.Kept(t, func(t testing.TB) blob.Mirror { return open(t, path, id, Options{}) })
}

func TestModel(t *testing.T) {
	t.Parallel()
	m, _ := newMirror(t, Options{folders: 3, Unsynced: true})
	blobtest.Model(t, m)
}
