// Package queue decides which job of which Source runs next, and when a pull is due. It knows nothing of what a job
// does, and keeps nothing over a restart.
//
// Identity: one Job waits for a Source and a Kind, with the earlier Due. A Put while it runs makes it run again, to
// see whatever was recorded before the Put.
//
// Order: one job of a Source runs at a time (one writer per Source), by Due, within a second by kind.
//
// Fairness: a blocked Source holds up no other. Only slotted kinds share slots, which Sources get in turn.
//
// Failure: a failed or panicked Job (F5) is repeated after 1 s, doubling to 5 min, until it succeeds or is dropped. A
// Put brings the repetition forward, but not to within a second. Work that fails because ctx ended waits for the next
// Run.
//
// Pulls: a Source with a Schedule is pulled when that says so (CONTRIBUTING.md 3.8), each pull deriving from the one
// before, so that nothing postpones one. Sources keep a small distance from the grid, or all would start together. One
// pull makes up for all missed ones.
package queue
