//go:build race

package keeper

// raced: the race detector is on, under which everything takes ten times as long.
const raced = true
