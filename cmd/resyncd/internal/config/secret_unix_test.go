//go:build unix

package config

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A FIFO without a writer blocks whoever opens it; the daemon must say so instead of hanging.
func TestSecretFIFO(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readSecret(fifo); err == nil || err.Error() != "is not a regular file" {
		t.Errorf("%v", err)
	}
}
