package transfer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestLingering: an orderly end is waited for, not for ever; after a failure nothing more is done.
func TestLingering(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		kept, release := lingering(ctx)
		defer release()
		end()
		began := time.Now()
		<-kept.Done()
		if took := time.Since(began); took != lingerFor {
			t.Errorf("lingered for %v", took)
		}
		failing, fail := context.WithCancelCause(t.Context())
		kept, release = lingering(failing)
		defer release()
		fail(errors.New("the state failed"))
		began = time.Now()
		<-kept.Done()
		if took := time.Since(began); took != 0 {
			t.Errorf("after a failure %v passed", took)
		}
	})
}
