//go:build soak

package keymap

const millionNames = true
