package e2e_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/cmd/resyncd/internal/exit"
)

// serveWatched starts the daemon with its disks under watch; it is false if the daemon ended instead.
func (o *ordeal) serveWatched(judge func(deed) ruling) bool {
	o.t.Helper()
	watch(o.t, exec.Command("resyncd-watched", "serve"), []string{o.data, filepath.Dir(o.mirror)}, judge, o.begin)
	return o.listening()
}

// ended tells whether the daemon has ended by itself, and insists that it said no by its exit code then.
func (o *ordeal) ended() bool {
	o.t.Helper()
	select {
	case <-o.daemon.ended:
	default:
		return false
	}
	if code := o.daemon.cmd.ProcessState.ExitCode(); code != exit.Failed && code != -1 {
		o.t.Errorf("the daemon ended with %d:\n%s", code, tail(o.daemon.err.String(), 2000))
	}
	return true
}

// pushed waits until pushes come through.
func (o *ordeal) pushed() {
	o.t.Helper()
	o.converged(30 * time.Second)
	had := len(o.gate.acknowledged())
	o.until("a push comes through", 30*time.Second, func() bool {
		o.put("first.txt")
		<-time.After(50 * time.Millisecond)
		return len(o.gate.acknowledged()) > had
	})
	o.converged(30 * time.Second)
}

// TestHardPointsServing does to the daemon what TestHardPoints does to a catch-up: from a push to the files, it is killed
// before the N-th write, sync, rename, unlink or database write, or that one fails. It goes on by itself, at the latest
// when it is begun anew.
func TestHardPointsServing(t *testing.T) {
	t.Parallel()
	killedAndFailed(t, servingPoints)
}

func servingPoints(t *testing.T, how func(deed) ruling) {
	o := newOrdeal(t, 8, "", "")
	var armed atomic.Pointer[counted]
	judge := func(d deed) ruling {
		if c := armed.Load(); c != nil {
			return c.judge(d)
		}
		return 0
	}
	saw := o.annals.watchOver(o.mirror, 2*time.Millisecond)
	o.serveWatched(judge)
	o.pushed()
	tried, starts, slowest, step, byKind := 0, 0, time.Duration(0), int64(1), map[string]int{}
	if !soak {
		step = 18
	}
	revive := func(before map[string][32]byte) {
		if o.ended() {
			o.unharmed(before)
			o.kill()
			starts++
			o.serveWatched(judge)
		}
	}
	for n := int64(1); ; n += step {
		before := o.annals.living()
		c := &counted{nth: n, how: how}
		armed.Store(c)
		o.put("d0/r000.txt")
		o.put("d3/r003.txt")
		o.put(fmt.Sprintf("fresh/%d.txt", n))
		o.src.Delete(fmt.Sprintf("fresh/%d.txt", n-step))
		// The files may be what they should be before the daemon has ended of the deed before.
		if !o.struck(c, func() { revive(before) }) {
			break
		}
		if c.dead.Load() {
			<-o.daemon.ended
		}
		began := time.Now()
		tried++
		if hit := *c.hit.Load(); hit.ofState() {
			byKind["database "+hit.kind]++
		} else {
			byKind[hit.kind]++
		}
		took := o.until("the daemon has caught up", 30*time.Second, func() bool {
			revive(before)
			missing, wrong, extra, err := o.annals.differences(o.mirror)
			return err == nil && len(missing)+len(wrong)+len(extra) == 0
		})
		slowest = max(slowest, took)
		if t.Failed() || testing.Verbose() && time.Since(began) > 10*time.Second {
			hit := *c.hit.Load()
			t.Logf("deed %d took %s to recover from: %s %s\n%s", n, took, hit.kind, strings.TrimPrefix(hit.path, o.dir), tail(o.daemon.err.String(), 2000))
		}
		if t.Failed() {
			return
		}
	}
	armed.Store(nil)
	revive(nil)
	o.settled(30 * time.Second)
	o.kill()
	o.catchUp()
	o.tidied()
	reads := saw.quit(t)
	t.Logf("%d points, %d starts, %d reads by the witness, slowest recovery %s, 0 violations: %v", tried, starts, reads, slowest.Round(time.Millisecond), byKind)
}

// struck waits until the deed that was named is done to, and is false if all is done without it. What revive begins anew
// is a daemon that ended before.
func (o *ordeal) struck(c *counted, revive func()) bool {
	o.t.Helper()
	var rest time.Time
	o.until("the daemon has acted", 30*time.Second, func() bool {
		if c.hit.Load() != nil {
			return true
		}
		revive()
		if missing, wrong, extra, err := o.annals.differences(o.mirror); err != nil || len(missing)+len(wrong)+len(extra) > 0 {
			rest = time.Time{}
		} else if rest.IsZero() {
			rest = time.Now()
		}
		return !rest.IsZero() && time.Since(rest) > 300*time.Millisecond
	})
	return c.hit.Load() != nil
}
