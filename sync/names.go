package sync

import (
	"resyncd/sync/plan"
	"resyncd/sync/pull"
	"resyncd/sync/transfer"
)

// Names of the rooms that callers of this package need.
type (
	// Target is one Source with everything that a run of it needs.
	Target = pull.Target
	// Kind is what the URL of a Source leads to.
	Kind = pull.Kind
	// DeleteMode is what happens to the file of a resource that the Source deleted.
	DeleteMode = transfer.DeleteMode
	// Progress is a step of a run.
	Progress = transfer.Progress
	// Settled is how the work on one resource ended.
	Settled = transfer.Settled
)

// The kinds. KindAuto takes a feed for one only where it was given as such; KindFeed follows any topic.
const (
	KindAuto         = pull.KindAuto
	KindResourceSync = pull.KindResourceSync
	KindFeed         = pull.KindFeed
)

// RecordsResourceFinder is the only value of Target.Records beside none.
const RecordsResourceFinder = plan.RecordsResourceFinder

// What happens to the file of a resource that the Source deleted: it goes to the trash, stays, or is removed at once.
const (
	DeleteTrash = transfer.DeleteTrash
	DeleteKeep  = transfer.DeleteKeep
	DeleteNow   = transfer.DeleteNow
)
