//go:build soak

package sync

const millionNames = true
