package e2e_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestHardSlow has a swarm of slow connections on the callback of a real daemon, each of which comes again when it is thrown
// out, while good notifications come in: these are answered as if nothing was, none of the slow ones is held for long, and
// memory is bounded (P8).
func TestHardSlow(t *testing.T) {
	t.Parallel()
	conns, lasts, p99, stay := 200, 3*time.Second, 5*time.Second, 40*time.Second
	if soak {
		conns, lasts, p99, stay = 2000, 30*time.Second, 50*time.Millisecond, 15*time.Second
	}
	roomFor(t, conns)
	w := &herald{hostileHub: newHostileHub(t)}
	daemon := w.inProcess()
	w.posts(20, time.Now(), 0) // the first ones pay for what later ones find ready
	calm := spreadOf(w.posts(50, time.Now(), lasts/3))
	before := takenBy(t, daemon)
	at, err := url.Parse(w.callback)
	if err != nil {
		t.Fatal(err)
	}
	s := besiege(at.Host, at.Path, conns)
	t.Cleanup(s.quit)
	w.await("the daemon holds the slow connections", func() bool { idle, slow := s.held(); return idle+slow >= conns*9/10 })
	took := w.posts(50, time.Now(), lasts)
	peak := takenBy(t, daemon)
	s.calm.Store(true)
	w.await("the slow connections are gone", func() bool { _, slow := s.held(); return slow == 0 })
	idle, slow := s.held()
	longest, each := s.stayed()
	s.quit()
	if s.failed != nil {
		t.Errorf("the daemon took no connection: %v", s.failed)
	}
	w.await("what was posted is mirrored", func() bool { return w.mirrored(w.last) })
	worst := spreadOf(took)
	t.Logf("%d slow connections at once, %d in all: %d good posts took %s (without the slow ones %s); %d slow ones left, the longest was held %.1f s (%s), %d idle ones left; memory %d MiB more, %d KiB for each",
		conns, s.thrown, len(took), worst, calm, slow, longest.Seconds(), each, idle, (peak-before)>>20, (peak-before)>>10/int64(conns))
	if p99 = max(p99, 4*calm.p99); worst.p99 > p99 { // where posts are slow even by themselves, the disk or others are
		t.Errorf("p99 of good posts is %s, more than %s", worst.p99, p99)
	}
	if longest > stay {
		t.Errorf("a slow connection was held for %s", longest)
	}
	if most := int64(2*memoryAllowance + conns*64<<10); peak-before > most {
		t.Errorf("the daemon took %d MiB more for them, want at most %d", (peak-before)>>20, most>>20)
	}
}

// herald is a hub that tells of what happens, and of nothing else.
type herald struct {
	*hostileHub

	told string // until when it has told
	last string // the resource that it told of last
}

// roomFor skips the test where neither we nor the daemon may open that many connections.
func roomFor(t *testing.T, conns int) {
	t.Helper()
	var limit unix.Rlimit // of our own; Go has raised it as far as it goes, and the daemon does the same
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if want := uint64(conns + 300); limit.Cur < want {
		t.Skipf("%d open files are allowed, this needs %d: ulimit -n", limit.Cur, want)
	}
}

// inProcess starts the daemon in a process of its own, and waits until it is subscribed.
func (w *herald) inProcess() *process {
	w.t.Helper()
	p := &process{cmd: exec.Command("resyncd", "serve", "--config", w.config), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = w.dir, childEnv()
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // it is killed
		close(p.ended)
	}()
	w.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if s := p.err.String(); w.t.Failed() || strings.Contains(s, "panic:") || strings.Contains(s, "DATA RACE") {
			w.t.Errorf("the daemon said:\n%s", tail(s, 3000))
		}
	})
	w.await("the hub was asked and the mirror is there", func() bool { return w.ready() && w.mirrored("a.txt") })
	return p
}

func (w *herald) await(what string, ask func() bool) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); !ask(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("waited a minute in vain until %s", what)
		}
	}
}

// posts sends good notifications, so many a second, and returns how long the answers took. Each second one comes by a
// connection of its own.
func (w *herald) posts(rate int, began time.Time, lasts time.Duration) (took []time.Duration) {
	w.t.Helper()
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for len(took) == 0 || time.Since(began) < lasts {
		name := fmt.Sprintf("good/%d.txt", time.Now().UnixNano())
		row := hostilePost{body: w.news(name), sign: right}
		if len(took)%2 == 1 {
			row.header = []string{"Connection", "close"}
		}
		sent := time.Now()
		if got := w.send(row); got != http.StatusOK {
			w.t.Fatalf("a good notification was answered %d", got)
		}
		took = append(took, time.Since(sent))
		<-tick.C
	}
	return took
}

// news publishes a resource, and tells of it where the last notification ended.
func (w *herald) news(name string) string {
	w.t.Helper()
	from := w.told
	if from == "" {
		from = time.Now().UTC().Format(micros)
	}
	w.put(name)
	w.last, w.told = name, time.Now().UTC().Format(micros)
	return urlset(`capability="change-notification" from="`+from+`" until="`+w.told+`"`,
		fmt.Sprintf(`<url><loc>%s/%s</loc><rs:md change="created" datetime="%s" hash="sha-256:%x"/></url>`,
			w.base, name, w.told, sha256.Sum256([]byte("this is "+name))))
}

const micros = "2006-01-02T15:04:05.000000Z"

// spread is what answers took.
type spread struct{ median, p99, most time.Duration }

func (s spread) String() string {
	return fmt.Sprintf("median %s, p99 %s, at most %s", rounded(s.median), rounded(s.p99), rounded(s.most))
}

func rounded(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

func spreadOf(took []time.Duration) spread {
	slices.Sort(took)
	n := len(took)
	return spread{took[n/2], took[min(n*99/100, n-1)], took[n-1]}
}

// takenBy is how much memory a process takes, in bytes.
func takenBy(t *testing.T, p *process) int64 {
	t.Helper()
	n, err := takes(p.cmd.Process.Pid, "VmRSS")
	if err != nil {
		t.Fatal(err)
	}
	return n
}
