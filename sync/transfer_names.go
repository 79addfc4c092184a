package sync

import "resyncd/sync/transfer"

// Names of package transfer that callers of this one need.
type (
	// DeleteMode is what happens to the file of a resource that the Source deleted.
	DeleteMode = transfer.DeleteMode
	// Progress is a step of a run.
	Progress = transfer.Progress
	// Settled is how the work on one resource ended.
	Settled = transfer.Settled
)

// What happens to the file of a resource that the Source deleted: it goes to the trash, stays, or is removed at once.
const (
	DeleteTrash = transfer.DeleteTrash
	DeleteKeep  = transfer.DeleteKeep
	DeleteNow   = transfer.DeleteNow
)
