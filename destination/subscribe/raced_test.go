//go:build race

package subscribe

// raced: the race detector is on, under which everything takes ten times as long.
const raced = true
