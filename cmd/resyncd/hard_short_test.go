//go:build !soak

package main

// soak: the short forms of the hard tests; the long ones want the build tag soak.
const soak = false
