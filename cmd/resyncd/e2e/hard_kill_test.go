package e2e_test

import (
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"
)

// TestHardKills kills the daemon at random moments while the Source changes 20 times a second and a witness reads final
// paths (F1, P1, P2, P4, P6): afterwards nothing is lost, wrong or extra.
func TestHardKills(t *testing.T) {
	t.Parallel()
	kills, calmEvery, look := 12, 4, 5*time.Millisecond
	if soak {
		kills, calmEvery, look = 300, 25, 100*time.Microsecond
	}
	o := newOrdeal(t, 120, "", "")
	saw := o.annals.watchOver(o.mirror, look)
	o.serveDaemon()
	o.converged(30 * time.Second)
	done, changes := 0, int64(0)
	for done < kills {
		n := o.churn(20)
		for range calmEvery {
			// At work, or while it starts, or while it catches up.
			<-time.After(time.Duration(rand.IntN(1000)) * time.Millisecond)
			o.kill()
			for range rand.IntN(3) {
				o.begin(exec.Command("resyncd", "serve"))
				<-time.After(time.Duration(rand.IntN(150)) * time.Millisecond)
				o.kill()
				done++
			}
			o.serveDaemon()
			done++
		}
		o.calm()
		changes += n.Load()
		o.settled(time.Minute)
	}
	acked := len(o.gate.acknowledged())
	reads := saw.quit(t)
	missing, wrong, extra, err := o.annals.differences(o.mirror)
	t.Logf("%d kills, %d changes, %d acknowledged, %d reads by the witness: %d lost, %d wrong, %d extra, %d reads of what was never published or older than before; %v",
		done, changes, acked, reads, len(missing), len(wrong), len(extra), len(saw.wrong), err)
	if acked == 0 {
		t.Error("no push came through")
	}
	if soak && reads < 100_000 {
		t.Errorf("only %d reads", reads)
	}
}
