package e2e_test

import (
	"testing"
	"time"
)

const pullsBySchedule = 6 // a minute

// TestHardHub has a hub that cannot be trusted (F20 to F40, P9): of its notifications 30 % are lost, 5 % doubled, 5 %
// emptied under a good signature, 20 % delayed and shuffled; old ones come again; strangers forge, the hub itself lies with
// the secret in its hands; it dies and comes back. The mirror never holds what was not published nor what is older than
// before, the Source is asked no more than its schedule and the hints allow, and soon after calm the mirror is the Source.
func TestHardHub(t *testing.T) {
	t.Parallel()
	storm, look, within := 10*time.Second, 5*time.Millisecond, time.Minute
	if soak {
		storm, look, within = 100*time.Second, 500*time.Microsecond, 30*time.Second
	}
	seed := hardSeed(t)
	o := newOrdeal(t, 80, "", "")
	o.configure("@every 10s")
	o.roll = newDice(seed, 1).roll
	o.annals.late.Store(true)
	saw := o.annals.watchOver(o.mirror, look)
	o.serveDaemon()
	o.converged(30 * time.Second)
	o.known()
	toll := o.toll()
	m := o.meddle(newDice(seed, 2))
	changes := o.churn(20)
	<-time.After(storm / 2)
	m.die(storm / 5)
	<-time.After(storm - storm/2 - storm/5)
	o.calm()
	m.calmed()
	o.lastWord()
	took := o.converged(within)
	due := toll.due("the storm", pullsBySchedule+pullsByHints+pullsByGaps, changes.Load(), m.entries())
	o.settled(within)
	reads := saw.quit(t)
	t.Logf("%d changes; %s", changes.Load(), m)
	t.Logf("%s; %d reads by the witness, %d of what was never published or older than before; in step %s after the end",
		due, reads, len(saw.wrong), took.Round(time.Millisecond))
}

// lastWord is the first change after a storm. What a hub said falsely, and signed, lives until the Source's documents have
// got beyond it (coverage.md 2): by this change, or else when they can lag no longer, after a minute.
func (o *ordeal) lastWord() { o.put("last.txt") }
