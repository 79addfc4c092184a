package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/store"
)

// A hub is suspect when strikesMost pulls in a row each found changes that it should have told of, and it told of nothing
// in between; a single one may only have been quicker than a push. The Source is then pulled more often, and the keeper
// asks the hub anew or tries the next one (CONTRIBUTING.md 3.8).
const (
	strikesMost  = 2
	suspectShare = 4 // of the usual pause between pulls
	suspectLeast = 10 * time.Second
)

var errNobodyFollows = errors.New("nobody follows the Source just now")

// miss is what one pull found that no push had told of.
type miss struct {
	source, set, n int64
}

// judge counts push misses and draws the consequences.
type judge struct {
	misses chan miss

	mu      sync.Mutex
	strikes map[int64]int            // by set, since the last delivery for its Source
	sets    map[int64]map[int64]bool // sets of a Source that have strikes
}

func newJudge() *judge {
	return &judge{misses: make(chan miss, 256), strikes: map[int64]int{}, sets: map[int64]map[int64]bool{}}
}

// missed takes note of misses; with too many waiting, those are not counted.
func (j *judge) missed(source, set, n int64) {
	select {
	case j.misses <- miss{source, set, n}:
	default:
	}
}

// strike counts one and returns how many there are in a row.
func (j *judge) strike(m miss) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.sets[m.source] == nil {
		j.sets[m.source] = map[int64]bool{}
	}
	j.sets[m.source][m.set] = true
	j.strikes[m.set]++
	return j.strikes[m.set]
}

// delivered clears a Source; suspect reports whether one of its hubs had been.
func (j *judge) delivered(source int64) (suspect bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for set := range j.sets[source] {
		suspect = suspect || j.strikes[set] >= strikesMost
		delete(j.strikes, set)
	}
	delete(j.sets, source)
	return suspect
}

// suspects are the sets of a Source whose hub does not tell of changes.
func (j *judge) suspects(source int64) map[int64]bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := map[int64]bool{}
	for set := range j.sets[source] {
		out[set] = j.strikes[set] >= strikesMost
	}
	return out
}

// suspectsAny tells whether the hub of one of a Source's sets does not tell of changes.
func (j *judge) suspectsAny(source int64) bool {
	for _, suspect := range j.suspects(source) {
		if suspect {
			return true
		}
	}
	return false
}

// judgeHubs works through misses until ctx ends.
func (d *Daemon) judgeHubs(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-d.judge.misses:
			if err := d.judgeOne(ctx, m); err != nil && ctx.Err() == nil {
				d.log.Warn("push misses cannot be recorded", logging.Err(err))
			}
		}
	}
}

func (d *Daemon) judgeOne(ctx context.Context, m miss) error {
	subs, err := d.st.Subscriptions(ctx, m.source, false)
	if err != nil {
		return err
	}
	suspect := d.judge.strike(m) >= strikesMost
	for i := range subs {
		if subs[i].SetID != m.set || subs[i].Kind == store.ChannelFramework || !subs[i].Live() {
			continue
		}
		if err := d.st.TallySubscription(ctx, subs[i].ID, store.Tally{PushMisses: m.n}); err != nil {
			return err
		}
		if !suspect {
			continue
		}
		d.metrics.Count(console.SuspectedHubs, d.nameOf(m.source), "", 1)
		d.log.Warn("a hub does not tell of changes: it is asked anew, and the Source pulled more often",
			logging.KeyHub, logging.URL(subs[i].Hub), "misses", subs[i].Missed+m.n)
		if err := d.keeper.Suspect(ctx, subs[i].ID); err != nil {
			return err
		}
	}
	if suspect {
		d.hurry(m.source)
	}
	return nil
}

// hurry has a Source pulled more often, because its hubs cannot be relied on, if that is still so: a notification may have come
// since, and have calmed it.
func (d *Daemon) hurry(source int64) {
	d.pacing.Lock()
	defer d.pacing.Unlock()
	if r := d.residentOf(source); r != nil && (d.leases.lacking(source) || d.judge.suspectsAny(source)) {
		d.table.Shorten(source, max(pauseOf(r, d.now())/suspectShare, suspectLeast))
	}
}

// calm ends that, unless a set of the Source has no hub.
func (d *Daemon) calm(source int64) {
	d.pacing.Lock()
	defer d.pacing.Unlock()
	if !d.leases.lacking(source) {
		d.table.Shorten(source, 0)
	}
}

// pauseOf is the usual pause between two scheduled pulls.
func pauseOf(r *resident, now time.Time) time.Duration {
	s := r.source().Schedule
	next := s.Next(now)
	return s.Next(next).Sub(next)
}

// baseFile remembers, in data_dir, under which base URL hubs know us.
const baseFile = "callback.url"

// rebase has every hub asked anew under the present base URL where the last daemon had another one: what hubs send to that
// is lost, and renewals may be weeks away.
func (d *Daemon) rebase(ctx context.Context) error {
	path := filepath.Join(d.config().DataDir, baseFile)
	last, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	was := strings.TrimSpace(string(last))
	if was == d.base {
		return nil
	}
	if was != "" {
		d.log.Info("the base URL of callbacks is another than before: hubs are asked anew", "was", was, "is", d.base)
		if err := d.askAnew(ctx); err != nil {
			return err
		}
	}
	return os.WriteFile(path, []byte(d.base+"\n"), 0o600) // after that: a kill in between repeats it
}

// askAnew has all that is subscribed renewed soon; what the operator cancelled stays so.
func (d *Daemon) askAnew(ctx context.Context) error {
	subs, err := d.st.Subscriptions(ctx, 0, false)
	if err != nil {
		return err
	}
	type channel struct {
		source int64
		topic  string
	}
	asked := map[channel]bool{}
	for i := range subs {
		c := channel{subs[i].SourceID, subs[i].Topic}
		if asked[c] || subs[i].State == store.SubOff || subs[i].State == store.SubUnsubscribing {
			continue
		}
		asked[c] = true
		if _, err := d.keeper.Renew(ctx, c.source, c.topic); err != nil {
			return err
		}
	}
	return nil
}
