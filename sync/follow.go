package sync

import (
	"context"
	"time"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/sync/transfer"
)

// Work is a slice of a Follower's work. The caller decides when which slice runs, one at a time for each Follower.
type Work string

// The slices. Notify takes up what waits in the inbox; Gap asks for the lists of open gaps that are due; Framework reads
// anew what the Source offers, and where a Framework Notification said so, its lists; Pull is the scheduled pull, and
// what RequestPull asked for; Conclude records how pulls ended whose fetches came to an end meanwhile; Scrub re-hashes a
// small part of the mirror.
const (
	WorkNotify    Work = "notify"
	WorkGap       Work = "gap"
	WorkFramework Work = "framework"
	WorkPull      Work = "pull"
	WorkConclude  Work = "conclude"
	WorkScrub     Work = "scrub"
)

// FollowOptions say how a Follower follows its Source.
type FollowOptions struct {
	// ReorderGrace is how long a hole waits for a late notification before a list is asked (F36).
	ReorderGrace time.Duration
	// Poll is the usual distance of two pulls: a lagging list is never left alone for longer.
	Poll time.Duration
	// Patience is how long a pull's fetches are waited for before the pull is concluded; what is not there then is owed.
	Patience time.Duration
	// Later asks for Do(w) at due or, if it is asked for already, at the earlier time. It must be quick; it is called from
	// several goroutines.
	Later func(w Work, due time.Time)
	// Offered is told which channels discovery found for a set. A channel that is gone is left out only after two
	// consistent reads (F71).
	Offered func(ctx context.Context, setID int64, channels []destination.Channel)
	// Subscribed reports since when a verified subscription to a set's change channel has been held, NoTime for none:
	// changes that happened later and that only a list told of are push misses.
	Subscribed func(setID int64) store.Micros
	Observe    Observer
}

// PullRequest is a pull that somebody waits for.
type PullRequest struct {
	Full bool
	// RetryFor is how long failures are retried before the request is answered, as in a one-shot run.
	RetryFor time.Duration
	// Ended is told of each set's result as it is concluded, Done of the end; Progress of the work meanwhile. All may be
	// nil, and are called while the Follower works.
	Ended    func(Result)
	Done     func(error)
	Progress func(transfer.Progress)
}
