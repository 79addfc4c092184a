//go:build linux

package dir

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"resyncd/store/blob"
)

// Tests here run this test program again, as a process of its own that can be killed or starved.
const childVar = "RESYNCD_BLOB_TEST_CHILD"

func TestMain(m *testing.M) {
	role, rest, _ := strings.Cut(os.Getenv(childVar), "|")
	if role == "" {
		os.Exit(m.Run())
	}
	path, id, _ := strings.Cut(rest, "|")
	if err := child(role, path, id); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// startChild runs a role in a process of its own and waits until it says that it is ready.
func startChild(t *testing.T, role, path, id string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+role+"|"+path+"|"+id)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("child says %q, %v", line, err)
	}
	return cmd, r
}

func child(role, path, id string) error {
	m, err := Open(path, id, Options{})
	if err != nil {
		return err
	}
	stage := func(text string) (blob.Stage, error) {
		s, err := m.NewStage(bg)
		if err == nil {
			_, err = io.WriteString(s, text)
		}
		return s, err
	}
	switch role {
	case "stager": // holds stages until it is killed
		for range 20 {
			if _, err := stage("left behind"); err != nil {
				return err
			}
		}
		fmt.Println("ready")
		for {
			syscall.Pause()
		}
	case "spooler":
		return spooler(m)
	case "placer": // replaces the same keys until it is killed
		fmt.Println("ready")
		for n := 1; ; n++ {
			var g []blob.Placement
			for k := range 12 {
				s, err := stage(strings.Repeat(fmt.Sprintf("%06d\n", n), 1+n%300))
				if err != nil {
					return err
				}
				p := blob.Placement{Stage: s, Key: fmt.Sprintf("d%d/k", k)}
				if n%4 == 0 {
					p.Displace = blob.NewTrashID(time.Now())
				}
				g = append(g, p)
			}
			if _, err := m.Place(bg, g); err != nil {
				return err
			}
		}
	case "starved":
		return starved(m, stage)
	}
	return fmt.Errorf("no role %q", role)
}

// starved takes all descriptors and sees that nothing is called missing for that (F11).
func starved(m *Mirror, stage func(string) (blob.Stage, error)) error {
	s, err := stage("x")
	if err != nil {
		return err
	}
	if errs, err := m.Place(bg, []blob.Placement{{Stage: s, Key: "a/b/c"}}); err != nil || errs[0] != nil {
		return fmt.Errorf("place: %v, %w", errs, err)
	}
	waiting, err := stage("waiting")
	if err != nil {
		return err
	}
	limit := syscall.Rlimit{Cur: 64, Max: 64}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	var all []*os.File
	take := func() {
		for {
			f, err := os.Open(os.DevNull)
			if err != nil {
				return
			}
			all = append(all, f)
		}
	}
	take()
	// What only waits in the mirror is given up before anybody is told.
	if _, err := m.Stat(bg, "a/b/c"); err != nil {
		return fmt.Errorf("stat with folders to give up: %w", err)
	}
	m.folders.closeUnused()
	if _, err := m.Stat(bg, "a/b/c"); err != nil { // which is given up next
		return fmt.Errorf("stat with descriptors again: %w", err)
	}
	take()
	spool, err := m.Spool(bg, spoolOfTests)
	if err == nil {
		err = spool.Close()
	}
	if err != nil {
		return fmt.Errorf("spool with folders to give up: %w", err)
	}
	m.folders.closeUnused()
	take()
	_, statErr := m.Stat(bg, "a/b/c")
	_, _, openErr := m.Open(bg, "a/b/c")
	_, stageErr := m.NewStage(bg)
	_, spoolErr := m.Spool(bg, spoolOfTests)
	errs, groupErr := m.Place(bg, []blob.Placement{{Stage: waiting, Key: "a/b/d"}})
	for what, err := range map[string]error{
		"stat": statErr, "open": openErr, "stage": stageErr, "spool": spoolErr, "place": errs[0], "group": groupErr,
		"remove": m.Remove(bg, []string{"a/b/c"})[0],
		"trash":  m.Trash(bg, []blob.TrashItem{{Key: "a/b/c", ID: "i"}})[0],
		"walk":   m.Walk(bg, func(blob.Info) error { return nil }),
		"check":  m.Check(bg),
	} {
		if !errors.Is(err, blob.ErrBusy) || errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrUnmarked) {
			return fmt.Errorf("%s without descriptors: %w", what, err)
		}
	}
	for _, f := range all {
		f.Close()
	}
	if errs, err := m.Place(bg, []blob.Placement{{Stage: waiting, Key: "a/b/d"}}); err != nil || errs[0] != nil {
		return fmt.Errorf("place with descriptors again: %v, %w", errs, err)
	}
	if err := m.Close(); err != nil {
		return err
	}
	fmt.Println("ready")
	return nil
}

// stageFolders counts the process folders in the stage area.
func stageFolders(t *testing.T, path string) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(path, ".resyncd", "stage"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if e.IsDir() {
			n++
		}
	}
	return n
}

// TestStagesOfTheDead: those of a killed process are swept by the next writer, those of a living one never (F1).
func TestStagesOfTheDead(t *testing.T) {
	t.Parallel()
	path, id := newRoot(t)
	cmd, _ := startChild(t, "stager", path, id)
	if n := stageFolders(t, path); n != 1 {
		t.Fatalf("%d process folders with one stager", n)
	}
	beside := open(t, path, id, Options{})
	if n := stageFolders(t, path); n != 1 {
		t.Fatalf("%d process folders: a living process was swept, or a folder made for nothing", n)
	}
	put(t, beside, "k", "x")
	cmd.Process.Kill()
	cmd.Wait()
	open(t, path, id, Options{ReadOnly: true})
	if n := stageFolders(t, path); n != 2 {
		t.Errorf("%d process folders: a reader swept", n)
	}
	os.Symlink("/etc", filepath.Join(path, ".resyncd", "stage", "planted"))
	os.MkdirAll(filepath.Join(path, ".resyncd", "stage", "half made", "0"), 0o700)
	open(t, path, id, Options{})
	if n := stageFolders(t, path); n != 1 {
		t.Errorf("%d process folders after the sweep, want the living one's", n)
	}
	if _, err := os.Stat("/etc/passwd"); err != nil {
		t.Error("swept behind a link")
	}
	put(t, beside, "k", "y")
}

// TestKilledWhilePlacing: whatever the moment, every name holds one whole version, and the next opener needs no help.
func TestKilledWhilePlacing(t *testing.T) {
	t.Parallel()
	path, id := newRoot(t)
	for round := range 6 {
		cmd, _ := startChild(t, "placer", path, id)
		deadline := time.Now().Add(time.Duration(round*7) * time.Millisecond)
		reads := 0
		for reads == 0 || time.Now().Before(deadline) { // sample until it is time
			for k := range 12 {
				if b, err := os.ReadFile(filepath.Join(path, fmt.Sprintf("d%d", k), "k")); err == nil {
					reads++
					wholeVersion(t, b)
				}
			}
		}
		cmd.Process.Kill()
		cmd.Wait()
		m, err := Open(path, id, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if n := stageFolders(t, path); n != 0 {
			t.Errorf("%d process folders left", n)
		}
		if err := m.Walk(t.Context(), func(i blob.Info) error {
			wholeVersion(t, []byte(disk(t, path, i.Key)))
			return nil
		}); err != nil {
			t.Error(err)
		}
		if err := m.ListTrash(t.Context(), func(i blob.TrashInfo) error {
			wholeVersion(t, []byte(disk(t, path, ".resyncd", "trash", i.ID)))
			return m.DropTrash(t.Context(), i.ID)
		}); err != nil {
			t.Error(err)
		}
		m.Close()
	}
}

func wholeVersion(t *testing.T, b []byte) {
	t.Helper()
	var n int
	if _, err := fmt.Sscanf(string(b), "%06d", &n); err != nil || string(b) != strings.Repeat(fmt.Sprintf("%06d\n", n), 1+n%300) {
		t.Fatalf("torn: %d bytes, %.20q", len(b), b)
	}
}

func TestOutOfDescriptors(t *testing.T) {
	t.Parallel()
	path, id := newRoot(t)
	startChild(t, "starved", path, id)
}
