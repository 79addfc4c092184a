package e2e_test

import (
	"strings"
	"testing"
	"time"
)

// TestChaosStarts has the N-th write, sync, rename, unlink or creation of a daemon's start fail, once, for N = 1, 2, 3 …
// until a start passes untouched (F7, F9, F11): the daemon ends with an exit code that says so, or gets over it by itself.
// None stays up that can never work. The short form takes some of the points.
func TestChaosStarts(t *testing.T) {
	t.Parallel()
	o := newOrdeal(t, 8, "", "")
	defer o.kill() // a watcher waits for the end of what it watches
	o.serveDaemon()
	o.converged(30 * time.Second)
	step := int64(1)
	if !soak {
		step = 9
	}
	tried, ends, slowest, byKind := 0, 0, time.Duration(0), map[string]int{}
	for n := int64(1); ; n += step {
		o.kill()
		o.put("d0/r000.txt")
		c := &counted{nth: n, how: deed.failure}
		if !o.serveWatched(c.judge) {
			o.kill()
			ends++
			o.serveDaemon()
		}
		took := o.until("the daemon has caught up after its start", time.Minute, func() bool {
			if o.ended() {
				o.kill()
				ends++
				o.serveDaemon()
			}
			missing, wrong, extra, err := o.annals.differences(o.mirror)
			return err == nil && len(missing)+len(wrong)+len(extra) == 0
		})
		hit := c.hit.Load()
		if hit == nil {
			break
		}
		tried++
		slowest = max(slowest, took)
		kind := hit.kind
		if hit.ofState() {
			kind = "database " + kind
		}
		byKind[kind]++
		if t.Failed() {
			t.Fatalf("at deed %d: %s %s", n, hit.kind, strings.TrimPrefix(hit.path, o.dir))
		}
	}
	o.kill() // its next deed may still be the one that fails
	o.serveDaemon()
	o.settled(30 * time.Second)
	t.Logf("%d points of a start, %d ends, slowest recovery %s: %v", tried, ends, slowest.Round(time.Millisecond), byKind)
}
