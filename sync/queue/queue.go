// Package queue knows when and where work runs: which job of which Source goes next, beside which others, and when a pull
// falls due. It refuses to know what a job does, and keeps nothing: what survives a restart is in the store.
package queue

import (
	"cmp"
	"fmt"
	"time"
)

// Kind names what is to be done for a Source. A Local carries any Kind; these have a place in the order of jobs.
type Kind string

// The kinds of jobs, the most urgent first.
const (
	KindNotify    Kind = "notify"    // read the inbox
	KindGap       Kind = "gap"       // close gaps
	KindFramework Kind = "framework" // read documents again that a Framework Notification named
	KindRequest   Kind = "request"   // do what a command asked for
	KindPull      Kind = "pull"      // the scheduled pull
	KindConclude  Kind = "conclude"  // end runs, retention, trash
	KindScrub     Kind = "scrub"     // hash mirror files again
)

// rank is a Kind's place in the order of jobs; kinds that are not ours come last.
func (k Kind) rank() int {
	switch k {
	case KindNotify:
		return 0
	case KindGap:
		return 1
	case KindFramework:
		return 2
	case KindRequest:
		return 3
	case KindPull:
		return 4
	case KindConclude:
		return 5
	case KindScrub:
		return 6
	}
	return 7
}

// Slotted reports whether jobs of the Kind share a limited number of slots over all Sources: the ones that read whole
// lists or hash whole mirrors and that nobody waits for. All other kinds run as soon as their own Source is free.
func (k Kind) Slotted() bool { return k == KindPull || k == KindFramework || k == KindScrub }

// Job is one piece of work. Source and Kind are its identity.
type Job struct {
	Source int64
	Kind   Kind
	// Due is when it may run, the zero time for at once. It is reached as soon as the wall clock says so or, where the time
	// carries a monotonic reading, that does; so neither a suspended machine nor a clock set back holds work up (F16).
	Due time.Time
}

// compare orders the jobs of one Source: by Due, then by kind. Due counts in whole seconds here, or else the kind would
// never matter: no two jobs are put in the same nanosecond.
func compare(a, b Job) int {
	return cmp.Or(
		cmp.Compare(a.Due.Unix(), b.Due.Unix()),
		cmp.Compare(a.Kind.rank(), b.Kind.rank()),
		cmp.Compare(a.Kind, b.Kind),
	)
}

// PanicError is what a Job failed with whose work panicked.
type PanicError struct {
	Value any
	Stack []byte
}

// Error tells what it panicked with; the stack is for the log.
func (e *PanicError) Error() string { return fmt.Sprintf("work panicked: %v", e.Value) }

// Unwrap is the cause where it panicked with an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
