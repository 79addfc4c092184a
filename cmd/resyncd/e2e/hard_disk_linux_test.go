package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sickness is one way for a disk to fail, as long as it lasts.
type sickness struct {
	state bool // the disk of the state, else of the mirror
	// options are of the small disk that is filled, and ballast fills it; "" for the usual one, which then rules every deed.
	options string
	ballast func(folder string) error
	rules   func(deed) ruling
	says    string // expression that the daemon's log must hold
	// ends is what a daemon that served must have said to be allowed to end, with an exit code, "" for never; whoever supervises it
	// begins it anew, and that one may find that it cannot serve.
	ends string
	// killed: the daemon does not live to see relief, and then only what it acknowledged tells it what to do (P4).
	killed bool
}

func sicknesses() map[string]sickness {
	readOnly := func(deed) ruling { return unix.EROFS }
	unsynced := func(d deed) ruling {
		if d.kind == "sync" {
			return unix.EIO
		}
		return 0
	}
	const unsure = `did not confirm a write` // then only a new start can tell what is there (F10)
	return map[string]sickness{
		"mirror out of bytes":  {options: "size=16m", ballast: fillBytes, says: `mirror is full`},
		"mirror out of inodes": {options: "size=64m,nr_inodes=200", ballast: fillInodes, says: `mirror is full.*0 inodes`},
		"mirror read-only":     {rules: readOnly, says: `mirror is read-only`},
		"mirror fails to sync": {rules: unsynced, says: unsure},
		"state out of bytes":   {state: true, options: "size=24m", ballast: fillBytes, says: `(?i)full`},
		"state full, killed":   {state: true, options: "size=24m", ballast: fillBytes, says: `(?i)full`, killed: true},
		"state out of inodes":  {state: true, options: "size=64m,nr_inodes=200", ballast: fillInodes},
		"state read-only":      {state: true, rules: readOnly, says: `disk of the state database (fails|did not confirm).*read-only`, ends: unsure},
		"state fails to sync":  {state: true, rules: unsynced, says: unsure, ends: unsure},
	}
}

// TestHardDisks has the disk of the mirror or of the state fail while the Source changes and the hub tells of it (F6 to
// F10): old versions stay, the hub gets a 503 where a notification cannot be kept, and within 30 seconds of relief the
// mirror is what the Source is, by itself.
func TestHardDisks(t *testing.T) {
	t.Parallel()
	turns := make(chan struct{}, 3) // at a time: that is what two cores can bear
	for name, s := range sicknesses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			s.suffer(t)
		})
	}
}

func (s sickness) suffer(t *testing.T) {
	data, mirror, small := "", "", ""
	if s.options != "" {
		small = smallDisk(t, s.options)
		if s.state {
			data = filepath.Join(small, "data")
		} else {
			mirror = filepath.Join(small, "mirror")
		}
	}
	o := newOrdeal(t, 20, data, mirror)
	o.configure("@every 10m") // no pull by schedule may be what mends it
	var sick atomic.Bool
	judge := func(d deed) ruling {
		below := filepath.Dir(o.mirror)
		if s.state {
			below = o.data
		}
		if s.rules == nil || !sick.Load() || !under(d.path, below) {
			return 0
		}
		return s.rules(d)
	}
	saw := o.annals.watchOver(o.mirror, 4*time.Millisecond)
	o.serveWatched(judge)
	o.pushed()
	before := o.annals.living()
	o.gate.forget()
	sick.Store(true)
	cure := func() { sick.Store(false) }
	if s.ballast != nil {
		cure = s.burden(t, small)
	}
	lasts := 2 * time.Second
	if soak {
		lasts = 20 * time.Second
	}
	o.churn(10)
	starts, said, says := 0, false, regexp.MustCompile(s.says)
	for end := time.Now().Add(lasts); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		said = said || says.MatchString(o.daemon.err.String()) // each daemon has words of its own
		if o.revived(s, judge) {
			starts++
		}
	}
	o.unharmed(before)
	acked, refused := o.gate.count(http.StatusOK), o.gate.count(http.StatusServiceUnavailable)
	if words := o.daemon.err.String(); !said && !says.MatchString(words) {
		t.Errorf("the daemon does not say %s:\n%s", s.says, tail(words, 3000))
	}
	if s.killed {
		o.calm()
		o.kill()
	}
	cure()
	if s.killed {
		o.keptItsWord(o.gate.acknowledged())
	}
	relief := time.Now()
	<-time.After(time.Second)
	o.calm()
	o.until("the mirror equals the Source", 30*time.Second, func() bool {
		if o.revived(s, judge) {
			starts++
		}
		missing, wrong, extra, err := o.annals.differences(o.mirror)
		return err == nil && len(missing)+len(wrong)+len(extra) == 0
	})
	took := time.Since(relief)
	o.settled(30 * time.Second)
	o.kill()
	o.catchUp()
	o.tidied()
	t.Logf("sick for %s: %d notifications acknowledged, %d answered 503, %d starts, %d reads by the witness, in step %s after relief",
		lasts, acked, refused, starts, saw.quit(t), took.Round(time.Millisecond))
}

// revived begins a daemon anew that has ended, as a supervisor does, if it may end at all.
func (o *ordeal) revived(s sickness, judge func(deed) ruling) bool {
	o.t.Helper()
	if !o.ended() {
		return false
	}
	words := o.daemon.err.String()
	if begun := strings.Contains(words, "msg=serving"); s.ends == "" || begun && !regexp.MustCompile(s.ends).MatchString(words) {
		o.t.Fatalf("the daemon ended:\n%s", tail(words, 3000))
	}
	o.kill()
	o.serveWatched(judge)
	return true
}

// burden fills a small disk and keeps it full, until the function it returns.
func (s sickness) burden(t *testing.T, disk string) (relieve func()) {
	t.Helper()
	folder := filepath.Join(disk, "ballast")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	full := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for once := sync.OnceFunc(func() { close(full) }); ; {
			if err := s.ballast(folder); !errors.Is(err, unix.ENOSPC) {
				t.Errorf("fill a disk: %v", err)
			}
			once()
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	<-full
	relieve = sync.OnceFunc(func() {
		close(stop)
		<-done
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(relieve)
	return relieve
}

// fillBytes writes until there is no room.
func fillBytes(folder string) error {
	f, err := os.OpenFile(filepath.Join(folder, "bytes"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	return err
}

// fillInodes makes files until there is no room for another.
func fillInodes(folder string) error {
	for {
		f, err := os.CreateTemp(folder, "")
		if err != nil {
			return err
		}
		_ = f.Close()
	}
}

// smallDisk mounts a small file system in memory; the test is skipped where that is not allowed.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	at := t.TempDir()
	if err := unix.Mount("resyncd-test", at, "tmpfs", 0, options); err != nil {
		t.Skipf("no small disk to be had here (mount): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(fmt.Errorf("unmount %s: %w", at, err))
		}
	})
	return at
}
