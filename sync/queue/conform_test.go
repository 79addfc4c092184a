package queue_test

import (
	"testing"

	"resyncd/sync/queue"
	"resyncd/sync/queue/queuetest"
)

func local(testing.TB) queue.Queue { return queue.NewLocal(queue.LocalOptions{}) }

func TestLocalConforms(t *testing.T) {
	t.Parallel()
	queuetest.Suite{New: local}.Run(t)
}

// TestSuiteInRealTime holds the suite to what it says of queues that virtual time cannot hurry.
func TestSuiteInRealTime(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits in real time")
	}
	queuetest.Suite{New: local, RealTime: true}.Run(t)
}
