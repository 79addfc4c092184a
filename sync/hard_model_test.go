package sync

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
)

// chronicle is a machine of one Source, whose hub loses, repeats, shuffles and forges, and two Destinations, each with a
// fate of its own: killed between any two durable steps, on failing disks, begun anew, asked to pull, or to do nothing.
type chronicle struct {
	*rig   // of the Source; nothing is mirrored there
	truth  *truth
	bodies map[string]string // the last body of each name, also of deleted ones
	names  []string
	twins  []*twin
	serial int
	tally  *chronicles
}

// chronicles are the figures of many.
type chronicles struct{ histories, changes, notices, forged, kills, ills, pulls, starts, restores, met, reads int }

func (c *chronicles) String() string {
	return fmt.Sprintf("%d histories of 2 mirrors: %d changes, %d notifications delivered (%d forged), %d pulls, %d kills and %d failures of a disk ordered, %d steps met by them, %d starts, %d old states put back, %d reads of final paths",
		c.histories, c.changes, c.notices, c.forged, c.pulls, c.kills, c.ills, c.met, c.starts, c.restores, c.reads)
}

// TestHardModel: whatever befalls two mirrors of one Source, after calm they are the same, byte for byte and row by row, and
// the same as one that saw nothing of it and pulled once at the end. Meanwhile no final path ever holds what was not
// published, nor goes back (P1, P2, P6).
func TestHardModel(t *testing.T) {
	t.Parallel()
	whole := checksAsked()
	end := time.Now().Add(usual(6 * time.Second))
	folder, sum := ramDir(t), &chronicles{}
	failing := false
	rapid.Check(t, func(rt *rapid.T) {
		if !whole && !failing && time.Now().After(end) {
			return // what is left of the checks passes unseen; a failure is shrunk without a limit of ours
		}
		done := false
		defer func() { failing = failing || !done || rt.Failed() }()
		sum.histories++
		c := newChronicle(rt, filepath.Join(folder, fmt.Sprint(sum.histories)), sum)
		rt.Repeat(map[string]func(*rapid.T){
			"":         c.look,
			"change":   c.change, // some twice, for their weight
			"change 2": c.change,
			"notify":   c.notify,
			"notify 2": c.notify,
			"lose":     c.lose,
			"delay":    c.delay,
			"again":    c.again,
			"forge":    c.forge,
			"kill":     c.kill,
			"sicken":   c.sicken,
			"stop":     c.stop,
			"backup":   c.backup,
			"restore":  c.restore,
			"pull":     c.pull,
			"slow":     c.slow,
			"rest":     c.rest,
		})
		c.calm()
		done = true
	})
	t.Log(sum)
}

func newChronicle(rt *rapid.T, folder string, sum *chronicles) *chronicle {
	rt.Cleanup(func() { _ = os.RemoveAll(folder) }) // thousands of them would fill a memory
	c := &chronicle{truth: newTruth(), bodies: map[string]string{}, tally: sum}
	c.rig = newRigIn(rt, folder, source.Options{
		ChangeListSize:  rapid.SampledFrom([]int{3, 1000}).Draw(rt, "change list size"),
		KeepChangeLists: rapid.SampledFrom([]int{-1, 2}).Draw(rt, "keep"),
		OnChange:        func(ch source.Change) { c.heard(ch) },
	}, nil)
	c.put("anchor", "never deleted: an empty list makes the sweep guard ask the operator")
	for i := range rapid.IntRange(1, 4).Draw(rt, "resources") {
		c.publish(fmt.Sprintf("d%d/r%d", i%2, i))
	}
	for _, name := range []string{"one", "other"} {
		w := newTwin(rt, c, filepath.Join(folder, name), name)
		c.twins = append(c.twins, w)
		w.taken()
		w.ask(false)
		w.hand(w.message()) // so that it is subscribed, also in each copy of its state
	}
	return c
}

// heard is the Source's OnChange.
func (c *chronicle) heard(ch source.Change) {
	c.truth.heard(c.srv.URL, ch)
	c.tally.changes++
	for _, w := range c.twins {
		w.locked(func() { w.changes = append(w.changes, ch) })
	}
}

// publish puts a body there that never was.
func (c *chronicle) publish(name string) {
	c.serial++
	c.republish(name, fmt.Sprintf("%s %d", name, c.serial))
}

func (c *chronicle) republish(name, body string) {
	if _, known := c.bodies[name]; !known {
		c.names = append(c.names, name)
	}
	c.bodies[name] = body
	c.put(name, body)
}

func (c *chronicle) change(rt *rapid.T) {
	name := rapid.SampledFrom(c.names).Draw(rt, "name")
	switch rapid.SampledFrom([]string{"put", "put", "new", "delete", "delete", "back", "flip"}).Draw(rt, "change") {
	case "put":
		c.publish(name)
	case "new":
		c.publish(fmt.Sprintf("new/%d", c.serial))
	case "delete":
		c.src.Delete(name)
	case "back": // created again as it was, or updated to what it is
		c.republish(name, c.bodies[name])
	case "flip": // deleted and back at once
		c.src.Delete(name)
		c.republish(name, c.bodies[name])
	}
}

// look is the oracle in motion.
func (c *chronicle) look(rt *rapid.T) {
	for _, w := range c.twins {
		for _, name := range c.names {
			w.seen.sample(name)
		}
		if v := w.seen.violations; len(v) > 0 {
			rt.Fatalf("%s: %s", w.name, strings.Join(v, "\n"))
		}
	}
}

func (c *chronicle) draw(rt *rapid.T) *twin {
	w := c.twins[rapid.IntRange(0, len(c.twins)-1).Draw(rt, "mirror")]
	w.revive()
	return w
}

func (c *chronicle) notify(rt *rapid.T) {
	w := c.draw(rt)
	w.hand(w.message())
}

func (c *chronicle) lose(rt *rapid.T) { c.draw(rt).taken() }

func (c *chronicle) delay(rt *rapid.T) {
	w := c.draw(rt)
	w.held = append(w.held, w.message())
}

// again hands over a notification that was handed over before, or late.
func (c *chronicle) again(rt *rapid.T) {
	w := c.draw(rt)
	if len(w.held) == 0 {
		rt.Skip("nothing was said yet")
	}
	m := w.held[rapid.IntRange(0, len(w.held)-1).Draw(rt, "which")]
	w.hand(message{m.iv, append(m.body, '\n')})
}

// forge is signed by the hub and untrue.
func (c *chronicle) forge(rt *rapid.T) {
	w := c.draw(rt)
	_, iv := w.taken()
	at := rsdoc.MicrosOf(time.Now()) + rsdoc.Micros(rapid.IntRange(-1000, 1000).Draw(rt, "at"))
	iv.Until = max(iv.From, at)
	lie := source.Change{URI: c.src.URI(rapid.SampledFrom(c.names).Draw(rt, "name")), Datetime: at, Length: 3,
		Change: rapid.SampledFrom([]rsdoc.Change{rsdoc.ChangeCreated, rsdoc.ChangeUpdated, rsdoc.ChangeDeleted}).Draw(rt, "lie")}
	w.hand(message{iv, w.document(iv, []source.Change{lie})})
	c.tally.forged++
}

func (c *chronicle) kill(rt *rapid.T) {
	c.tally.kills++
	c.draw(rt).fate.strikes(killed, rapid.IntRange(0, 8).Draw(rt, "steps"), 0)
}

func (c *chronicle) sicken(rt *rapid.T) {
	w := c.draw(rt)
	what := rapid.SampledFrom([]stroke{failed, doubtful}).Draw(rt, "how")
	c.tally.ills++
	w.fate.strikes(what, rapid.IntRange(0, 8).Draw(rt, "steps"), rapid.IntRange(1, 3).Draw(rt, "times"))
}

func (c *chronicle) stop(rt *rapid.T) { c.draw(rt).restart() }

func (c *chronicle) backup(rt *rapid.T) { c.draw(rt).backup() }

// restore puts an older state beside the files as they are.
func (c *chronicle) restore(rt *rapid.T) {
	w := c.draw(rt)
	if w.backups == 0 {
		rt.Skip("there is no backup")
	}
	w.restore(rapid.IntRange(0, w.backups-1).Draw(rt, "backup"))
}

func (c *chronicle) pull(rt *rapid.T) {
	c.tally.pulls++
	c.draw(rt).ask(rapid.Bool().Draw(rt, "full"))
}

// slow pulls while a document hangs, and changes are made and told meanwhile.
func (c *chronicle) slow(rt *rapid.T) {
	c.tally.pulls++
	w := c.draw(rt)
	way, others := rapid.IntRange(0, waysToHang-1).Draw(rt, "hangs"), rapid.IntRange(0, 6).Draw(rt, "others")
	w.slowPull(c.rig, rapid.Bool().Draw(rt, "full"), way, others, w.over, func() {
		for range rapid.IntRange(1, 3).Draw(rt, "meanwhile") {
			c.change(rt)
			w.hand(w.message())
		}
	})
}

// rest waits until a mirror has done what it can, so that what comes next does not meet it at work.
func (c *chronicle) rest(rt *rapid.T) {
	w := c.draw(rt)
	w.eventually("at rest", func() bool { return w.over() || w.rested() })
}

// calm lets the Source change once more, beyond whatever was invented, and holds the mirrors against each other.
func (c *chronicle) calm() {
	<-time.After(2 * time.Millisecond)
	c.publish("end")
	<-time.After(time.Millisecond)
	c.publish("end")
	plain := newTwin(c.t, c, filepath.Join(filepath.Dir(c.db), "plain"), "plain")
	want, rows := plain.settled()
	for _, w := range c.twins {
		got, its := w.settled()
		if diff := cmp.Diff(want, got); diff != "" {
			c.t.Fatalf("the mirrors differ (-plain +%s):\n%s", w.name, diff)
		}
		if diff := cmp.Diff(rows, its); diff != "" {
			c.t.Fatalf("the rows differ (-plain +%s):\n%s", w.name, diff)
		}
		c.tally.reads, c.tally.met = c.tally.reads+w.seen.reads, c.tally.met+w.fate.met
	}
}

// checksAsked tells that the command named a number of checks: then all of them are made.
func checksAsked() (asked bool) {
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	return asked
}
