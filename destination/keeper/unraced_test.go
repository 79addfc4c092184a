//go:build !race

package keeper

const raced = false
