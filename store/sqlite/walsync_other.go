//go:build !linux

package sqlite

import "os"

// syncData makes the content of a file durable.
func syncData(f *os.File) error { return f.Sync() }

// linked cannot tell here whether an open file still has a name.
func linked(*os.File) bool { return false }
