//go:build race

package sync

// raced: the race detector is on, under which everything takes five to ten times as long.
const raced = true
