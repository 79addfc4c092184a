// Package e2e knows what resyncd promises to whoever runs it: its tests drive the built program, and its companions,
// from outside, as scripts, hubs, Sources, disks and browsers meet it. It refuses to know how the program works
// inside.
package e2e
