// Package queue knows when and where work runs: which job of which Source goes next, beside which others, and when a pull
// falls due. It refuses to know what a job does, and keeps nothing: what survives a restart is in the store.
package queue

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Kind names what is to be done for a Source. A Queue carries any Kind; these have a place in the order of jobs.
type Kind string

// The kinds of jobs, the most urgent first.
const (
	KindNotify    Kind = "notify"    // read the inbox
	KindGap       Kind = "gap"       // close gaps
	KindFramework Kind = "framework" // read documents again that a Framework Notification named
	KindRequest   Kind = "request"   // do what a command asked for
	KindPull      Kind = "pull"      // the scheduled pull
	KindRetry     Kind = "retry"     // fetch what is owed
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
	case KindRetry:
		return 5
	case KindConclude:
		return 6
	case KindScrub:
		return 7
	}
	return 8
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

// Queue says when and where jobs run. Its methods are safe for concurrent use, also from within work.
//
// Identity: there is at most one waiting Job for a Source and a Kind; a Put of an equal one keeps the earlier Due. A Put
// while that Job runs makes it run again afterwards, so whatever was recorded before a Put is seen by a run after it.
//
// Order: jobs of one Source never run at the same time (one writer per Source). Of those whose time has come and that need
// not wait for a slot, the first by Due goes next; within a second notify goes before gap before framework before request
// before pull before retry before conclude before scrub. No kind starves: its Due grows old.
//
// Fairness: every Source with work runs in a place of its own, so a Source whose jobs block for minutes holds up nobody's
// notifications, gaps and requests. Only slotted kinds (pull, framework, scrub) share a limited number of slots, which
// Sources get in turn; see Options for what happens to those who keep theirs. A job that waits for a slot is overtaken by
// jobs of its Source that need none.
//
// Failure: a Job whose work returns an error, or panics (F5), is repeated after 1 s, doubling to 5 min, with jitter, until
// it succeeds or is dropped. A Put meanwhile brings the repetition forward, yet not to within a second of the failure. Work
// that fails because ctx ended has not failed; its Job waits for the next Run.
type Queue interface {
	// Put asks for a Job. An error means that the Job may not have been taken.
	Put(ctx context.Context, j Job) error
	// Drop forgets all waiting jobs of a Source. One that runs is left to end and not repeated, unless it is Put again. It
	// does not wait for that end, so work may drop its own Source.
	Drop(ctx context.Context, source int64) error
	// Run carries out jobs with work, each in a goroutine of its own, until ctx ended and all work returned; it returns nil
	// then. work gets ctx and must heed it. Jobs that were put before Run wait for it.
	Run(ctx context.Context, work func(ctx context.Context, j Job) error) error
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
