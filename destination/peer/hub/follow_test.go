package hub

import (
	"net/url"
	"runtime"
	"sync"
	"testing"

	"resyncd/destination/fetch"
	"resyncd/destination/websub"
)

// TestFollowedOnce: who asks again the moment it is answered is asked for each of its requests, once. One that came between the
// end of the one before and the look for the next was followed twice, which ended in a hub that answered nobody any more.
func TestFollowedOnce(t *testing.T) {
	t.Parallel()
	const most = 20_000
	inBubble(t, Options{verifyRate: 1e6}, func(b *bubble) {
		asked := 0
		b.net.change(func(n *still) {
			n.ask = func(url.Values) (*fetch.Answer, error) { asked++; return &fetch.Answer{Status: 200}, nil }
		})
		var posters sync.WaitGroup
		for range 2 {
			posters.Go(func() {
				for range most / 2 {
					q := &request{denied: "not today"}
					q.form.HubForm = websub.HubForm{Mode: websub.ModeDenied, Callback: cb, Topic: "http://topic.example/"}
					if err := b.hub.enqueue(q); err != nil {
						t.Error(err)
						return
					}
					for len(q.done) == 0 { // not asleep when the answer comes
						runtime.Gosched()
					}
				}
			})
		}
		posters.Wait()
		if n := b.net.count(func() int { return asked }); n != most {
			t.Errorf("asked %d times", n)
		}
		b.hub.mu.Lock()
		defer b.hub.mu.Unlock()
		if left := b.hub.requests.new.waiting + b.hub.requests.existing.waiting; left > 1 { // the last one may not be off the list yet
			t.Errorf("%d are left", left)
		}
	})
}
