package sync

import (
	"context"
	"time"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/sync/transfer"
)

// Work is a slice of a Follower's work. The caller runs one slice at a time for each Follower.
type Work string

// WorkNotify takes up the inbox; WorkGap reads the lists of open gaps; WorkFramework rediscovers; WorkPull pulls;
// WorkConclude records finished pulls; WorkScrub re-hashes a small part of the mirror.
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
	// ReorderGrace is how long a hole waits for a late notification (F36).
	ReorderGrace time.Duration
	// Poll is the usual time between two pulls and the longest back-off of a lagging list.
	Poll time.Duration
	// Patience is how long a pull waits for its fetches; the rest stays owed.
	Patience time.Duration
	// Later asks for Do(w) at due, or earlier if already asked for. It must be quick and safe for concurrent use.
	Later func(w Work, due time.Time)
	// Offered receives the channels of a set. A missing channel is left out only after two reads agree (F71).
	Offered func(ctx context.Context, setID int64, channels []destination.Channel)
	// Subscribed reports since when a verified subscription to the set has been held, NoTime for none. Later changes
	// that only a list shows are push misses.
	Subscribed func(setID int64) store.Micros
	Observe    Observer
}

// PullRequest is a pull whose caller waits.
type PullRequest struct {
	Full bool
	// RetryFor bounds the retries before the request is answered.
	RetryFor time.Duration
	// Ended receives each set's result, Done the end, Progress the work. Each may be nil and runs while the Follower
	// works.
	Ended    func(Result)
	Done     func(error)
	Progress func(transfer.Progress)
}
