//go:build !linux

package e2e_test

// watched and watchedState are there on Linux only.
func watched()      {}
func watchedState() {}
