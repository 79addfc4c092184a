package hub

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/destination/peer/hub/hubstate"
)

// TestDiskHangs: publishers that leave are let go, what can be read is delivered, what waits for the disk is bounded,
// and one recording of progress waits for all. All of it comes in the end.
func TestDiskHangs(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{}, func(b *bubble) {
		b.subscribe(cb)
		state := &failing{State: b.hub.o.State}
		b.hub.o.State = state
		mended := make(chan struct{})
		hang := func() { <-mended }
		state.confirm.Store(&hang)
		leaving, leave := context.WithCancel(context.Background())
		leave()
		const size, most = 8 << 20, 8
		for i := range most {
			body := make([]byte, size)
			note := b.hub.notification(aTopic, "application/xml", nil, body, [32]byte{byte(i)})
			err := b.hub.commit(leaving, &hubstate.Commit{Notifications: []*hubstate.Notification{note}})
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			pass(time.Second)
		}
		if got := len(b.net.contents(cb)); got != 1 || len(b.hub.writes.waiting) != most {
			t.Errorf("%d were delivered, %d commits wait", got, len(b.hub.writes.waiting))
		}
		err := b.hub.commit(leaving, &hubstate.Commit{Notifications: []*hubstate.Notification{{Body: make([]byte, size)}}})
		if !errors.Is(err, errBusy) {
			t.Errorf("too much waits: %v", err)
		}
		close(mended)
		synctest.Wait()
		b.push("a")
		pass(time.Second)
		if subs := b.subscriptions(); subs[0].Cursor != most+1 || subs[0].Delivered != most+1 {
			t.Errorf("%+v", subs)
		}
	})
}

// TestSubscribersDoNotEndTheHub: that some subscriptions cannot be recorded says nothing of the hub's work.
func TestSubscribersDoNotEndTheHub(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{}, func(b *bubble) {
		b.subscribe(cb)
		state := &failing{State: b.hub.o.State}
		b.hub.o.State = state
		broken := errors.New("input/output error")
		state.err.Store(&broken)
		for i := range badCommits + 5 {
			b.subscribe(fmt.Sprintf("http://sub%d.example/", i))
		}
		pass(time.Minute)
		state.err.Store(nil)
		b.push("a")
		if got := len(b.net.contents(cb)); got != 1 {
			t.Errorf("%d were delivered", got)
		}
	})
}
