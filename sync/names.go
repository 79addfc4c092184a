package sync

import (
	"resyncd/sync/plan"
	"resyncd/sync/pull"
	"resyncd/sync/transfer"
)

// Aliases for callers of this package.
type (
	// Target is one Source with everything that a run of it needs.
	Target = pull.Target
	// Kind says what a Source's URL leads to.
	Kind = pull.Kind
	// DeleteMode decides about the file of a resource that the Source deleted.
	DeleteMode = transfer.DeleteMode
	// Progress is a step of a run.
	Progress = transfer.Progress
	// Settled is how the work on one resource ended.
	Settled = transfer.Settled
)

// KindAuto takes only an explicitly given feed for one; KindFeed follows any topic.
const (
	KindAuto         = pull.KindAuto
	KindResourceSync = pull.KindResourceSync
	KindFeed         = pull.KindFeed
)

// RecordsResourceFinder is the only value of Target.Records besides none.
const RecordsResourceFinder = plan.RecordsResourceFinder

// DeleteTrash moves the file to the trash, DeleteKeep leaves it, DeleteNow removes it at once.
const (
	DeleteTrash = transfer.DeleteTrash
	DeleteKeep  = transfer.DeleteKeep
	DeleteNow   = transfer.DeleteNow
)
