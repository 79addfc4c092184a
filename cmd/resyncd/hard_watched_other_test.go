//go:build !linux

package main

// watched is there on Linux only.
func watched() { main() }
