//go:build linux

package dir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"resyncd/store/blob"
)

var bg = context.Background()

// smallDisk mounts a small file system in memory; the test is skipped where that is not allowed.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	at := t.TempDir()
	if err := syscall.Mount("resyncd-test", at, "tmpfs", 0, options); err != nil {
		t.Skipf("no small disk to be had here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return at
}

// onDisk makes and opens a mirror there.
func onDisk(t *testing.T, at string) (*Mirror, string) {
	t.Helper()
	path := filepath.Join(at, "m")
	id, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(path, id, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m, path
}

// TestFullOfBytes: the old version stays, the stage can be discarded, and then there is room again (F6).
func TestFullOfBytes(t *testing.T) {
	t.Parallel()
	m, path := onDisk(t, smallDisk(t, "size=256k"))
	put(t, m, "k", "old")
	s, err := m.NewStage(bg)
	if err != nil {
		t.Fatal(err)
	}
	block := []byte(strings.Repeat("x", 32<<10))
	for n := 0; err == nil && n < 32; n++ {
		_, err = s.Write(block)
	}
	if !errors.Is(err, blob.ErrNoSpace) || !blob.Systemic(err) || !strings.Contains(err.Error(), "bytes") {
		t.Fatalf("Write on a full disk: %v", err)
	}
	if _, again := s.Write(block[:1]); !errors.Is(again, blob.ErrNoSpace) {
		t.Errorf("Write goes on after an error: %v", again)
	}
	errs, err := m.Place(bg, []blob.Placement{{Stage: s, Key: "k"}})
	if !errors.Is(errs[0], blob.ErrNoSpace) || !errors.Is(err, blob.ErrNoSpace) {
		t.Errorf("Place of half a file: %v, %v", errs, err)
	}
	if got := disk(t, path, "k"); got != "old" {
		t.Errorf("holds %q", got)
	}
	if err := s.Reset(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("new")); err != nil {
		t.Errorf("Write after Reset: %v", err)
	}
	if errs, err := m.Place(bg, []blob.Placement{{Stage: s, Key: "k"}}); err != nil || errs[0] != nil {
		t.Errorf("Place after Reset: %v, %v", errs, err)
	}
	if got := disk(t, path, "k"); got != "new" {
		t.Errorf("holds %q", got)
	}
}

// TestFullOfInodes: the message names them (F8).
func TestFullOfInodes(t *testing.T) {
	t.Parallel()
	m, path := onDisk(t, smallDisk(t, "size=4m,nr_inodes=24"))
	put(t, m, "k", "old")
	waiting := staged(t, m, "waiting")
	var stages []blob.Stage
	var err error
	for err == nil && len(stages) < 100 {
		var s blob.Stage
		if s, err = m.NewStage(bg); err == nil {
			stages = append(stages, s)
		}
	}
	if !errors.Is(err, blob.ErrNoSpace) || !strings.Contains(err.Error(), "0 inodes") {
		t.Fatalf("NewStage without inodes: %v", err)
	}
	group := []blob.Placement{{Stage: waiting, Key: "new/folder/k"}, {Stage: stages[0], Key: "k"}}
	errs, err := m.Place(bg, group)
	if !errors.Is(errs[0], blob.ErrNoSpace) || !errors.Is(err, blob.ErrNoSpace) {
		t.Errorf("Place in a new folder: %v, %v", errs, err)
	}
	if errs[1] != nil {
		t.Errorf("its neighbour: %v", errs[1])
	}
	for _, s := range stages {
		if err := s.Discard(); err != nil {
			t.Error(err)
		}
	}
	if errs, err := m.Place(bg, group[:1]); err != nil || errs[0] != nil {
		t.Errorf("Place with inodes again: %v, %v", errs, err)
	}
	if got := disk(t, path, "new/folder/k"); got != "waiting" {
		t.Error(got)
	}
}

// TestDiskBecomesReadOnly: nothing is lost, the reason is told, and it goes on by itself (F9).
func TestDiskBecomesReadOnly(t *testing.T) {
	t.Parallel()
	at := smallDisk(t, "size=1m")
	m, path := onDisk(t, at)
	put(t, m, "k", "old")
	s := staged(t, m, "new")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.(*stage).release() // an open file would keep the disk from changing
	remount := func(flags uintptr) {
		t.Helper()
		if err := syscall.Mount("", at, "", syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Skipf("cannot remount: %v", err)
		}
	}
	for _, lock := range []*os.File{m.area.lock} {
		lock.Close()
	}
	remount(syscall.MS_RDONLY)
	_, err := m.NewStage(bg)
	errs, groupErr := m.Place(bg, []blob.Placement{{Stage: s, Key: "k"}})
	for what, err := range map[string]error{
		"NewStage": err, "Place": errs[0], "group": groupErr,
		"Remove": m.Remove(bg, []string{"k"})[0],
		"Trash":  m.Trash(bg, []blob.TrashItem{{Key: "k", ID: "i"}})[0],
	} {
		if !errors.Is(err, blob.ErrReadOnly) || !blob.Systemic(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if other, err := Open(path, m.id, Options{}); !errors.Is(err, blob.ErrReadOnly) {
		other.Close()
		t.Errorf("Open for writing: %v", err)
	}
	reader, err := Open(path, m.id, Options{ReadOnly: true})
	if err != nil {
		t.Fatalf("Open for reading: %v", err)
	}
	if i, err := reader.Stat(bg, "k"); err != nil || i.Length != 3 {
		t.Errorf("Stat: %+v, %v", i, err)
	}
	reader.Close()
	if got := disk(t, path, "k"); got != "old" {
		t.Errorf("holds %q", got)
	}
	remount(0)
	if errs, err := m.Place(bg, []blob.Placement{{Stage: s, Key: "k"}}); err != nil || errs[0] != nil {
		t.Errorf("Place when writable again: %v, %v", errs, err)
	}
	if got := disk(t, path, "k"); got != "new" {
		t.Errorf("holds %q", got)
	}
}

// TestAnotherDiskBelow: a disk mounted inside the mirror cannot take files from the stage; that is the item's error.
func TestAnotherDiskBelow(t *testing.T) {
	t.Parallel()
	m, path := newMirror(t, Options{})
	below := filepath.Join(path, "below")
	os.Mkdir(below, 0o755)
	if err := syscall.Mount("resyncd-test", below, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no disk to be had here: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(below, syscall.MNT_DETACH) })
	g := []blob.Placement{{Stage: staged(t, m, "x"), Key: "below/k"}, {Stage: staged(t, m, "y"), Key: "k"}}
	errs, err := m.Place(bg, g)
	if err != nil || errs[0] == nil || errs[1] != nil {
		t.Errorf("Place: %v, %v", errs, err)
	}
	if errs[0] != nil && !strings.Contains(fmt.Sprint(errs[0]), "another file system") {
		t.Errorf("does not say what to do: %v", errs[0])
	}
}
