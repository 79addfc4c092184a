//go:build soak

package e2e_test

// soak: the long forms of the hard tests.
const soak = true
