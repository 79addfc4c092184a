package main

import (
	"testing"

	"resyncd/cmd/internal/helptest"
)

// TestHelp: the help has examples and exit codes, and names what flags take.
func TestHelp(t *testing.T) {
	t.Parallel()
	helptest.Check(t, help())
}
