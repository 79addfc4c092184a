//go:build !race

package sync

const raced = false
