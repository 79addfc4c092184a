//go:build !linux

package dbfile

import "os"

func syncData(f *os.File) error { return f.Sync() }

func linked(*os.File) bool { return false }
