//go:build !linux

package main

// tellManager does nothing where there is no systemd.
func tellManager(string, string) error { return nil }

func monotonicMicros() int64 { return 0 }
