//go:build soak

package main

// soak: the long forms of the hard tests.
const soak = true
