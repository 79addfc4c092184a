//go:build !soak

package e2e_test

// soak: the short forms of the hard tests; the long ones want the build tag soak.
const soak = false
