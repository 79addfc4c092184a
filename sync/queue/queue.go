// Package queue decides which job of which Source runs next, and when a pull is due. It knows nothing of what a job
// does, and keeps nothing over a restart.
package queue

import (
	"cmp"
	"time"
)

// Kind names the work for a Source.
type Kind string

// The kinds of jobs, the most urgent first.
const (
	KindNotify    Kind = "notify"
	KindGap       Kind = "gap"
	KindFramework Kind = "framework" // read documents that a Framework Notification named
	KindRequest   Kind = "request"
	KindPull      Kind = "pull"
	KindConclude  Kind = "conclude" // end runs, retention, trash
	KindScrub     Kind = "scrub"    // hash mirror files again
)

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

// Slotted reports whether jobs of the Kind share slots over all Sources: those that read whole lists or hash whole
// mirrors.
func (k Kind) Slotted() bool { return k == KindPull || k == KindFramework || k == KindScrub }

// Job is one piece of work. Source and Kind are its identity.
type Job struct {
	Source int64
	Kind   Kind
	// Due is when the Job may run, zero for at once, by the wall clock or the monotonic one, whichever comes first
	// (F16).
	Due time.Time
}

func compare(a, b Job) int {
	return cmp.Or(
		cmp.Compare(a.Due.Unix(), b.Due.Unix()),
		cmp.Compare(a.Kind.rank(), b.Kind.rank()),
		cmp.Compare(a.Kind, b.Kind),
	)
}
