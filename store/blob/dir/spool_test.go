//go:build linux

package dir

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"resyncd/store/blob"
)

const spoolOfTests = "5f70"

// spoolPath is where a spool lies.
func spoolPath(path, name string) string {
	return filepath.Join(path, ".resyncd", "stage", "packages", name)
}

// TestSpoolOfTheDead: a killed process leaves its spools to the next one, a living one has them for itself, and a sweep
// takes none.
func TestSpoolOfTheDead(t *testing.T) {
	t.Parallel()
	path, id := newRoot(t)
	cmd, _ := startChild(t, "spooler", path, id)
	m := open(t, path, id, Options{})
	if _, err := m.Spool(t.Context(), spoolOfTests); !errors.Is(err, blob.ErrExists) || blob.Systemic(err) {
		t.Errorf("Spool of another process: %v", err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	open(t, path, id, Options{}) // sweeps
	s, err := m.Spool(t.Context(), spoolOfTests)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(io.NewSectionReader(s, 0, s.Size()))
	if err != nil || string(got) != "half of it" {
		t.Errorf("left %q, %v", got, err)
	}
	if err := os.Remove(spoolPath(path, spoolOfTests)); err != nil { // somebody tidies up
		t.Fatal(err)
	}
	if err := s.Discard(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(spoolPath(path, "")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestPlantedSpools: what is no file of this name alone is replaced, never written to; a folder is left alone (F87).
func TestPlantedSpools(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plant   plant
		refused bool
	}{
		"link outside":   {symlinkTo("OUTSIDE/secret"), false},
		"link inside":    {symlinkTo("beef"), false},
		"dangling link":  {symlinkTo("nothing"), false},
		"link to itself": {symlinkTo(spoolOfTests), false},
		"FIFO":           {fifo, false},
		"hard link":      {hardLink, false},
		"folder": {func(t *testing.T, _, at string) {
			if err := os.MkdirAll(filepath.Join(at, "full"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, path := newMirror(t, Options{})
			outside := t.TempDir()
			secret := filepath.Join(outside, "secret")
			os.WriteFile(secret, []byte("secret"), 0o600)
			other, err := m.Spool(t.Context(), "beef")
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(other, "another")
			at := spoolPath(path, spoolOfTests)
			c.plant(t, outside, at)
			s, err := m.Spool(t.Context(), spoolOfTests)
			if c.refused {
				if !errors.Is(err, blob.ErrNotRegular) || blob.Systemic(err) {
					t.Errorf("Spool: %v", err)
				}
				return
			}
			if err != nil || s.Size() != 0 {
				t.Fatal(err)
			}
			if _, err := io.WriteString(s, "x"); err != nil {
				t.Error(err)
			}
			if info, err := os.Lstat(at); err != nil || !info.Mode().IsRegular() || info.Size() != 1 || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
			if disk(t, secret) != "secret" || disk(t, spoolPath(path, "beef")) != "another" {
				t.Error("written through")
			}
			if err := errors.Join(s.Discard(), other.Discard()); err != nil {
				t.Error(err)
			}
			if disk(t, secret) != "secret" {
				t.Error("discarded through")
			}
		})
	}
}

// TestPlantedFolderOfSpools: a link in its place is not followed, and the next opener sweeps it.
func TestPlantedFolderOfSpools(t *testing.T) {
	t.Parallel()
	m, path := newMirror(t, Options{})
	put(t, m, "d/k", "kept")
	planted := filepath.Dir(spoolPath(path, "x"))
	if err := os.Symlink(filepath.Join(path, "d"), planted); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Spool(t.Context(), spoolOfTests); !errors.Is(err, blob.ErrParentNotFolder) {
		t.Errorf("Spool: %v", err)
	}
	never := func(name string, _ time.Time) error { return fmt.Errorf("listed %q", name) }
	if err := m.Spools(t.Context(), never); !errors.Is(err, blob.ErrParentNotFolder) {
		t.Errorf("Spools: %v", err)
	}
	again := open(t, path, m.id, Options{})
	s, err := again.Spool(t.Context(), spoolOfTests)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Discard(); err != nil {
		t.Error(err)
	}
	os.WriteFile(filepath.Join(planted, "not-ours"), nil, 0o600)
	if err := again.Spools(t.Context(), never); err != nil {
		t.Error(err)
	}
	if got := disk(t, path, "d", "k"); got != "kept" {
		t.Errorf("holds %q", got)
	}
}

// TestSpoolOnAFullDisk: it says so, and keeps what was written, so that it can go on when there is room again (F6).
func TestSpoolOnAFullDisk(t *testing.T) {
	t.Parallel()
	m, path := onDisk(t, smallDisk(t, "size=256k"))
	put(t, m, "k", strings.Repeat("x", 64<<10))
	s, err := m.Spool(bg, spoolOfTests)
	if err != nil {
		t.Fatal(err)
	}
	block := []byte(strings.Repeat("y", 48<<10))
	for n := 0; err == nil && n < 32; n++ {
		_, err = s.Write(block)
	}
	if !errors.Is(err, blob.ErrNoSpace) || !blob.Systemic(err) || !strings.Contains(err.Error(), "bytes") {
		t.Fatalf("Write on a full disk: %v", err)
	}
	if on := int64(len(disk(t, spoolPath(path, spoolOfTests)))); on != s.Size() || on == 0 {
		t.Errorf("%d bytes on disk, %d told", on, s.Size())
	}
	m.Remove(bg, []string{"k"})
	before := s.Size()
	if n, err := s.Write([]byte("more")); err != nil || n != 4 || s.Size() != before+4 {
		t.Errorf("Write with room again = %d, %v; %d bytes of %d", n, err, s.Size(), before+4)
	}
	if got := disk(t, spoolPath(path, spoolOfTests)); int64(len(got)) != s.Size() || !strings.HasSuffix(got, "ymore") {
		t.Errorf("%d bytes, the last %q", len(got), got[len(got)-8:])
	}
	if err := errors.Join(s.Reset(), s.Discard()); err != nil {
		t.Error(err)
	}
}

// TestSpoolRefuses: a reader makes and lists none.
func TestSpoolRefuses(t *testing.T) {
	t.Parallel()
	path, id := newRoot(t)
	reader := open(t, path, id, Options{ReadOnly: true})
	_, err := reader.Spool(t.Context(), spoolOfTests)
	listErr := reader.Spools(t.Context(), func(string, time.Time) error { return nil })
	if !errors.Is(err, blob.ErrReadOnly) || !errors.Is(listErr, blob.ErrReadOnly) {
		t.Errorf("%v, %v", err, listErr)
	}
	if _, err := os.Lstat(spoolPath(path, "")); err == nil {
		t.Error("made a folder")
	}
}

// spooler holds a spool until it is killed.
func spooler(m *Mirror) error {
	s, err := m.Spool(bg, spoolOfTests)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(s, 4)
	if _, err := w.WriteString("half of it"); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		syscall.Pause()
	}
}
