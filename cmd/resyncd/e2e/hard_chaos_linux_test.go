package e2e_test

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"resyncd/cmd/resyncd/internal/exit"
	sourcefaults "resyncd/destination/peer/source/faults"
)

// Who throws dice in a chaos, each with their own.
const (
	makeDice = iota
	fateDice
	luckDice
	changeDice
	weatherDice
	hubDice
	diskDice
	blowDice
)

// chaosChanges are the changes of the Source in a second.
const chaosChanges = 20

// chaosSettings reads how long it storms, and by which seed: RESYNCD_CHAOS (such as 2m) and RESYNCD_CHAOS_SEED.
func chaosSettings(t *testing.T) (storm time.Duration, seed uint64) {
	t.Helper()
	storm, seed = 5*time.Second, 1
	if v := os.Getenv("RESYNCD_CHAOS"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil || d < time.Second {
			t.Fatalf("RESYNCD_CHAOS %q: want a time such as 2m", v)
		}
		storm, seed = d, uint64(rand.Uint32())
	}
	if v := os.Getenv("RESYNCD_CHAOS_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("RESYNCD_CHAOS_SEED %q: want a number", v)
		}
		seed = n
	}
	return storm, seed
}

// TestChaos is everything at once: 20 changes a second at a Source with weather, a hub that is begun anew and forgets,
// notifications lost, doubled and late, disks that fail, the daemon killed, ended, begun anew and halted. It storms in
// rounds; after each there is calm, and then the mirror is what the Source is, by hash and by the auditor's word (P1), no
// reader ever saw what was never published or went back (P2, P6), and the daemon takes no more than it did at first. In
// the last round, a third of the time, one daemon has to live through all that can be lived through.
func TestChaos(t *testing.T) {
	t.Parallel()
	storm, seed := chaosSettings(t)
	long := storm / 3
	rounds := max(1, int((storm-long)/(20*time.Second)))
	t.Logf("%s of chaos in %d rounds; again with RESYNCD_CHAOS=%s RESYNCD_CHAOS_SEED=%d", storm, rounds+1, storm, seed)
	c := newChaos(t, seed, 150)
	defer c.testify()
	saw := c.annals.watchOver(c.mirror, 2*time.Millisecond)
	c.raise()
	c.pushing()
	first := c.quiet()
	t.Logf("at first: %s", first)
	for round := range rounds {
		c.storm(uint64(round), (storm-long)/time.Duration(rounds), true)
		took, pushed := c.calms()
		t.Logf("round %d, in step %s and pushed to %s after it: %s", round+1, took, pushed, c.flat(first))
		if t.Failed() {
			return
		}
	}
	survivor := c.daemon
	c.storm(uint64(rounds), long, false)
	if c.daemon != survivor {
		t.Error("in a round that a daemon can live through it did not")
	}
	took, pushed := c.calms()
	t.Logf("the last round, in step %s and pushed to %s after it: %s", took, pushed, c.flat(first))
	c.bury()
	c.catchUp()
	c.tidied()
	t.Logf("afterwards: rows %v", c.rowsKept(first))
	reads := saw.quit(t)
	t.Logf("%s of chaos, seed %d, %v: 0 missing, wrong or extra; %d changes acknowledged, %d reads by the witness, %d of them wrong",
		storm, seed, c.tally, len(c.gate.acknowledged()), reads, len(saw.wrong))
}

// calms waits until the mirror is what the Source is and nothing is owed, has the auditor confirm it, and waits until
// pushes come through; it tells how long after the storm the first and the last of that was.
func (c *chaos) calms() (inStep, pushed time.Duration) {
	c.t.Helper()
	began := time.Now()
	if c.ended() {
		c.revive()
	}
	c.until("the mirror equals the Source and nothing is owed", 2*time.Minute, func() bool {
		missing, wrong, extra, err := c.annals.differences(c.mirror)
		return err == nil && len(missing)+len(wrong)+len(extra) == 0 && len(c.listed("--owed")) == 0
	})
	inStep = time.Since(began).Round(time.Millisecond)
	c.settled(time.Minute)
	c.pushing()
	return inStep, time.Since(began).Round(time.Millisecond)
}

// storm lasts so long; the daemon is killed only where that is deadly.
func (c *chaos) storm(round uint64, lasts time.Duration, deadly bool) {
	c.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), lasts)
	var actors sync.WaitGroup
	c.rough.Store(true)
	defer func() { // a blow may fail the test
		stop()
		actors.Wait()
		c.rough.Store(false)
		c.late.Wait()
	}()
	actors.Go(func() { c.changes(ctx, c.dice(changeDice, round)) })
	actors.Go(func() { c.weather(ctx, c.dice(weatherDice, round)) })
	actors.Go(func() { c.relays(ctx, c.dice(hubDice, round)) })
	actors.Go(func() { c.disks(ctx, c.dice(diskDice, round), deadly) })
	c.blows(ctx, c.dice(blowDice, round), deadly)
}

// rest pauses for some time between the two, in milliseconds; it is false if the storm ended meanwhile.
func rest(ctx context.Context, dice *rand.Rand, least, most int) bool {
	pause := time.NewTimer(time.Duration(least+dice.IntN(most-least)) * time.Millisecond)
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// changes changes the Source: most are updates, the others deletions of what is there and creations of what is not.
func (c *chaos) changes(ctx context.Context, dice *rand.Rand) {
	tick := time.NewTicker(time.Second / chaosChanges)
	defer tick.Stop()
	names := c.names()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if name := names[dice.IntN(len(names))]; dice.IntN(5) == 0 {
			c.src.Delete(name)
		} else {
			c.edit(dice, name)
		}
		c.count("changes")
	}
}

// weather has the Source answer badly for some time, not at all for a shorter one, and well in between.
func (c *chaos) weather(ctx context.Context, dice *rand.Rand) {
	set := func(f sourcefaults.HTTP) {
		f.RetryAfter = 1
		c.sky.Lock()
		defer c.sky.Unlock()
		c.faults.Resources, c.faults.Documents = f, f
	}
	defer set(sourcefaults.HTTP{})
	for fair := true; ; fair = !fair {
		switch {
		case fair:
			set(sourcefaults.HTTP{})
		case dice.IntN(4) == 0:
			c.happened("outages of the Source", "")
			set(sourcefaults.HTTP{Error5xx: 1})
			if !rest(ctx, dice, 200, 1000) {
				return
			}
			continue
		default:
			c.happened("spells of bad answers", "")
			set(sourcefaults.HTTP{
				Latency:  time.Duration(dice.IntN(30)) * time.Millisecond,
				Error5xx: .05, Throttle: .03, Cut: .04, CutClose: .03, Wrong: .02, Stall: .005, HTML: .02,
			})
		}
		if !rest(ctx, dice, 500, 3000) {
			return
		}
	}
}

// relays has the hub begun anew, now and then without its memory.
func (c *chaos) relays(ctx context.Context, dice *rand.Rand) {
	for rest(ctx, dice, 1000, 6000) {
		forgets := dice.IntN(8) == 0
		c.hubDown()
		if forgets {
			c.happened("hubs that forgot", "")
			c.mu.Lock()
			c.forgot = true
			c.mu.Unlock()
			for _, file := range []string{"", "-wal", "-shm"} {
				_ = os.Remove(filepath.Join(c.dir, "hub.db"+file)) // one that is not there
			}
		} else {
			c.happened("hubs begun anew", "")
		}
		rest(ctx, dice, 0, 1500)
		c.hubUp()
	}
}

// disks has one disk after the other fail. The daemon may end of some of that only where the storm is deadly.
func (c *chaos) disks(ctx context.Context, dice *rand.Rand, deadly bool) {
	ail := func(ill *illness) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.illness = ill
	}
	defer ail(nil)
	all := illnesses()
	for rest(ctx, dice, 500, 3000) {
		ill := all[dice.IntN(len(all))]
		if ill.ends && !deadly {
			continue
		}
		c.happened("disks ill", ill.name)
		ail(&ill)
		more := rest(ctx, dice, 200, 1500)
		ail(nil)
		c.happened("disks well", ill.name)
		if !more {
			return
		}
	}
}

// blows hit the daemon itself.
func (c *chaos) blows(ctx context.Context, dice *rand.Rand, deadly bool) {
	c.t.Helper()
	for rest(ctx, dice, 100, 1500) {
		if c.ended() {
			c.happened("ends of the daemon by itself", "")
			c.revive()
		}
		switch n := dice.IntN(10); {
		case !deadly, n < 3:
			c.happened("halts", "")
			c.signal(syscall.SIGSTOP)
			rest(ctx, dice, 100, 2000)
			c.signal(syscall.SIGCONT)
		case n < 6:
			c.happened("orderly ends", "")
			c.terminate()
			c.raise()
		default:
			c.happened("kills", "")
			c.bury()
			for range dice.IntN(3) { // while it starts
				c.happened("kills", "at the start")
				c.sound()
				watch(c.t, exec.Command("resyncd-watched", "serve"), []string{c.data, filepath.Dir(c.mirror)}, c.judge, c.begin)
				rest(ctx, dice, 0, 200)
				c.bury()
			}
			c.raise()
		}
	}
}

func (c *chaos) signal(s syscall.Signal) {
	if err := c.daemon.cmd.Process.Signal(s); err != nil && !c.ended() {
		c.t.Error(err)
	}
}

// sound: so far no disk failed the daemon that is to be begun.
func (c *chaos) sound() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hurt = false
}

// raise begins the daemon, again and again while a disk keeps it from starting.
func (c *chaos) raise() {
	c.t.Helper()
	c.until("the daemon starts", 30*time.Second, func() bool {
		c.sound()
		if c.serveWatched(c.judge) {
			return true
		}
		c.happened("starts that failed", "")
		c.bury()
		return false
	})
}

// revive is what a supervisor does after the daemon ended by itself, which it may when the disk of its state failed.
func (c *chaos) revive() {
	c.t.Helper()
	c.mu.Lock()
	hurt := c.hurt
	c.mu.Unlock()
	if !hurt {
		c.t.Errorf("the daemon ended:\n%s", tail(c.daemon.err.String(), 3000))
	}
	c.bury()
	c.raise()
}

// terminate asks the daemon to end, which it does orderly and within ten seconds (F4).
func (c *chaos) terminate() {
	c.t.Helper()
	c.gate.open("")
	c.signal(syscall.SIGTERM)
	c.until("the daemon ends", 30*time.Second, func() bool {
		select {
		case <-c.daemon.ended:
			return true
		default:
			return false
		}
	})
	c.mu.Lock()
	hurt := c.hurt
	c.mu.Unlock()
	if code := c.daemon.cmd.ProcessState.ExitCode(); code != exit.Done && !(hurt && code == exit.Failed) {
		c.t.Errorf("SIGTERM ended the daemon with %d:\n%s", code, tail(c.daemon.err.String(), 3000))
	}
	c.bury()
}

// bury kills the daemon, if it still lives, and keeps what it wrote.
func (c *chaos) bury() {
	p := c.daemon
	c.kill()
	if p == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.diary.WriteString(p.err.String())
}

// testify ends the daemon and, if the test failed, leaves what happened, what the daemons wrote and their state.
func (c *chaos) testify() {
	c.bury()
	if !c.t.Failed() {
		return
	}
	f, err := os.CreateTemp(os.Getenv("RESYNCD_TEST_ARTIFACTS"), "resyncd-chaos-*.log")
	if err != nil {
		c.t.Error(err)
		return
	}
	defer f.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := f.Write(c.diary.Bytes()); err != nil {
		c.t.Error(err)
	}
	state := strings.TrimSuffix(f.Name(), ".log") + "-state"
	if err := os.CopyFS(state, os.DirFS(c.data)); err != nil {
		c.t.Error(err)
	}
	c.t.Logf("seed %d; what happened, and what the daemons wrote, is in %s; the state in %s", c.seed, f.Name(), state)
}

// pushing waits until pushes come through again. Of a hub that forgot the daemon has its doubts after a minute and a half
// (F24); here the operator is quicker.
func (c *chaos) pushing() {
	c.t.Helper()
	c.converged(30 * time.Second)
	c.mu.Lock()
	forgot := c.forgot
	c.forgot = false
	c.mu.Unlock()
	if forgot {
		if out, code := c.command("subscription", "renew", "lib"); code != exit.Done {
			c.t.Errorf("renew ended with %d: %s", code, out)
		}
	}
	dice, name := c.dice(makeDice, 1), chaosName(0)
	had := len(c.gate.acknowledged())
	c.until("a push comes through", time.Minute, func() bool {
		if len(c.gate.acknowledged()) > had {
			return true
		}
		c.edit(dice, name)
		<-time.After(100 * time.Millisecond)
		return false
	})
	c.converged(30 * time.Second)
}

// listensOn are the addresses that the daemon named.
func (c *chaos) listensOn() (addresses []string) {
	for line := range strings.Lines(c.daemon.out.String()) {
		if _, at, found := strings.Cut(strings.TrimSpace(line), " listens on "); found {
			addresses = append(addresses, at)
		}
	}
	return addresses
}
