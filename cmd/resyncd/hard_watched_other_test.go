//go:build !linux

package main

// watched and watchedState are there on Linux only.
func watched()      { main() }
func watchedState() { main() }
