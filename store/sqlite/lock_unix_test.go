//go:build !windows

package sqlite

import (
	"path/filepath"
	"syscall"
	"testing"
)

// TestReleasedAtOnce: a lock that was given up is free although a process that is being started still has its file.
func TestReleasedAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	l, got, err := lockFile(path)
	if err != nil || !got {
		t.Fatal(got, err)
	}
	child, err := syscall.Dup(int(l.f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(child)
	if _, again, err := lockFile(path); again || err != nil {
		t.Fatalf("a lock that is held: %t, %v", again, err)
	}
	if err := l.release(); err != nil {
		t.Fatal(err)
	}
	l, got, err = lockFile(path)
	if err != nil || !got {
		t.Fatalf("a lock that was given up: %t, %v", got, err)
	}
	if err := l.release(); err != nil {
		t.Error(err)
	}
}
