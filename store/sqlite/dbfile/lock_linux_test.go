package dbfile

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// TestReleasedAtOnce: a lock that was given up is free although a process that is being started still has its file.
func TestReleasedAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, got, err := Lock(path)
	if err != nil || !got {
		t.Fatal(got, err)
	}
	child, err := syscall.Dup(descriptorOf(t, path))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(child)
	if _, again, err := Lock(path); again || err != nil {
		t.Fatalf("a lock that is held: %t, %v", again, err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	unlock, got, err = Lock(path)
	if err != nil || !got {
		t.Fatalf("a lock that was given up: %t, %v", got, err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}

// descriptorOf is the one by which this process has a file open.
func descriptorOf(t *testing.T, path string) int {
	t.Helper()
	const all = "/proc/self/fd"
	entries, err := os.ReadDir(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(all, e.Name())); err == nil && to == path {
			n, err := strconv.Atoi(e.Name())
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s is not open", path)
	return 0
}
