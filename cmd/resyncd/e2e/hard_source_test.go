package e2e_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/destination/peer/source"
)

// TestHardSource lets a Source misbehave while it changes and its hub tells of it (F40 to F74, F79): what is mirrored is
// never anything but what it published (P2), never goes back (P6), goes only when it was deleted (P5); one resource in a
// hundred that always fails holds up nothing (P11), and when there is calm the mirror is what the Source is (P1).
func TestHardSource(t *testing.T) {
	t.Parallel()
	t.Run("everything at once", everythingAtOnce)
	t.Run("one thing at a time", oneThingAtATime)
	t.Run("history", historyLost)
}

// newMisbehaving is an ordeal whose Source has parts of lists, and whose daemon loses patience soon.
func newMisbehaving(t *testing.T, resources int, tune ...func(*source.Options)) (*ordeal, *mischief) {
	t.Helper()
	parts := func(s *source.Options) { s.ListSize, s.ListEvery, s.ChangeListSize = resources/4, -1, 50 }
	o := newOrdeal(t, resources, "", "", append([]func(*source.Options){parts}, tune...)...)
	o.configure("@every 1s")
	o.amend("network: { ", "network: { idle_timeout: 2s, ")
	o.amend("schedule: ", "gap_patience: 2s, reorder_grace: 200ms, schedule: ")
	return o, o.beMischievous()
}

// amend changes the configuration.
func (o *ordeal) amend(old, new string) {
	o.t.Helper()
	file := filepath.Join(o.dir, "resyncd.yaml")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.Replace(string(text), old, new, 1)), 0o600)
	}
	if err != nil {
		o.t.Fatal(err)
	}
}

// everythingAtOnce has three in ten of the resources' answers and two in ten of the documents' be bad, each in another way,
// and one resource in a hundred never be good.
func everythingAtOnce(t *testing.T) {
	t.Parallel()
	resources, lasts, rate := 200, 5*time.Second, 40
	if soak {
		resources, lasts = 1000, 100*time.Second
	}
	seed := hardSeed(t)
	o, m := newMisbehaving(t, resources)
	poison := o.poison(seed, resources/100)
	m.begin(func(path string, _ int) string { return poison[path] })
	saw := o.annals.watchOver(o.mirror, 2*time.Millisecond)
	o.serveDaemon()
	o.healthy(poison, 30*time.Second)
	first := m.requests.Load()
	m.calm()
	m.begin(seeded(seed, 0.3, 0.2, poison))
	changes := o.churn(rate)
	<-time.After(lasts)
	o.calm()
	sick := m.requests.Load() - first
	m.calm()
	m.begin(func(path string, _ int) string { return poison[path] })
	again := o.healthy(poison, 2*time.Minute)
	asked := 0
	for path := range poison {
		asked += m.count(m.asked, path)
	}
	m.calm()
	cured := o.mended(time.Minute)
	reads := saw.quit(t)
	m.noStrays(t)
	t.Logf("seed %d, %s of mischief, %d changes, %d requests then; %s", seed, lasts, changes.Load(), sick, m.told())
	t.Logf("%d reads by the witness: %d of what was never published, older than before, or deleted unasked; the other 99 %% in step %s after calm; poison %v, asked for %d times, in step %s after its cure",
		reads, len(saw.wrong), again.Round(time.Millisecond), slices.Sorted(maps.Values(poison)), asked, cured.Round(time.Millisecond))
}

// poison chooses resources that always fail, each in another way.
func (o *ordeal) poison(seed uint64, n int) map[string]string {
	dice := rand.New(rand.NewPCG(seed, 0))
	ways, at := names(passing, hanging, lament, lasting), o.names()
	dice.Shuffle(len(ways), func(i, j int) { ways[i], ways[j] = ways[j], ways[i] })
	poison := map[string]string{}
	for i, which := range dice.Perm(len(at))[:n] {
		poison["/"+at[which]] = ways[i%len(ways)]
	}
	return poison
}

// healthy waits until the mirror is what the Source is but for the poison, and insists that this is owed.
func (o *ordeal) healthy(poison map[string]string, within time.Duration) time.Duration {
	o.t.Helper()
	return o.until("all but the poison is mirrored", within, func() bool {
		missing, wrong, extra, err := o.annals.differences(o.mirror)
		harmless := func(uri string) bool { return poison[strings.TrimPrefix(uri, o.base)] != "" }
		return err == nil && len(slices.DeleteFunc(missing, harmless))+len(slices.DeleteFunc(wrong, harmless))+len(extra) == 0
	})
}

// mended has an operator ask for a pull, which tries again whatever the ledger would have wait, and waits until the mirror
// is what the Source is.
func (o *ordeal) mended(within time.Duration) time.Duration {
	o.t.Helper()
	began := time.Now()
	out, code := "", -1
	for code != exit.Done && time.Since(began) < within {
		out, code = o.command("sync", "--quiet", "lib")
	}
	if code != exit.Done {
		o.t.Errorf("a pull ended with %d: %s", code, out)
	}
	o.settled(within)
	return time.Since(began)
}
