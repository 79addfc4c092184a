package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"resyncd/cmd/resyncd/internal/exit"
)

// device is a file system in a file in memory. What the file holds at an instant is what a disk would hold if the power
// went off then: writes that the kernel has not passed on are not in it.
type device struct {
	t       *testing.T
	file    string
	loop    string // its block device
	mounted string
}

// newDevice makes one that forgives as little as ext4 can: names reach the disk when they are synced and not before, and
// no rename has bytes written out for somebody who forgot. The test is skipped where that is not allowed.
func newDevice(t *testing.T, file string, size int64) *device {
	t.Helper()
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, size)); err != nil {
		t.Fatal(err)
	}
	const journal = "-J size=4 -N 4096 -O ^resize_inode -E lazy_itable_init=0,lazy_journal_init=0"
	if out, err := exec.Command("mkfs.ext4", append([]string{"-q", "-F"}, append(strings.Fields(journal), file)...)...).CombinedOutput(); err != nil {
		t.Skipf("no file system for power cuts to be had here (loop device, ext4): %v %s", err, out)
	}
	return attach(t, file, "commit=600,data=writeback,noauto_da_alloc,nodelalloc")
}

// attach mounts such a file.
func attach(t *testing.T, file, options string) *device {
	t.Helper()
	d := &device{t: t, file: file, mounted: file + ".mnt"}
	out, err := exec.Command("losetup", "--find", "--show", file).Output()
	if err != nil {
		t.Skipf("no file system for power cuts to be had here (loop device, ext4): %v", err)
	}
	d.loop = strings.TrimSpace(string(out))
	t.Cleanup(d.detach)
	if err := os.Mkdir(d.mounted, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(d.loop, d.mounted, "ext4", 0, options); err != nil {
		t.Skipf("no file system for power cuts to be had here (loop device, ext4): mount %s: %v", options, err)
	}
	return d
}

// detach undoes attach.
func (d *device) detach() {
	if d.loop == "" {
		return
	}
	if err := unix.Unmount(d.mounted, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		d.t.Errorf("unmount %s: %v", d.mounted, err)
	}
	if out, err := exec.Command("losetup", "--detach", d.loop).CombinedOutput(); err != nil {
		d.t.Errorf("detach %s: %v %s", d.loop, err, out)
	}
	d.loop = ""
}

// snapshot copies what the disk holds at one instant. Nobody may be writing to it but the kernel for itself, which is
// waited for. It may be called from any goroutine.
func (d *device) snapshot(to string) error {
	stat := filepath.Join("/sys/block", filepath.Base(d.loop), "stat")
	for range 100 {
		before, err := os.ReadFile(stat)
		if err != nil {
			return err
		}
		if fields := strings.Fields(string(before)); len(fields) < 9 || fields[8] != "0" {
			<-time.After(5 * time.Millisecond) // something is on its way
			continue
		}
		if out, err := exec.Command("cp", "--sparse=always", d.file, to).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		after, err := os.ReadFile(stat)
		if err != nil {
			return err
		}
		if string(before) == string(after) {
			return nil
		}
	}
	return errors.New("the disk never came to rest")
}

// cut is a power cut: what was on disk then, and what had to be.
type cut struct {
	images   []string       // of the state's disk and the mirror's
	acked    []ackedChange  // told to the hub
	finished map[string]int // editions that a finished run had brought, by URI
}

// TestHardPowerCuts takes a copy of the disk as it is, again and again while the daemon works, at the border of two system
// calls: nothing acknowledged is lost (P4), no row is without its good file (P3), no file of a finished run vanishes, and
// from each copy the daemon catches up.
func TestHardPowerCuts(t *testing.T) {
	t.Parallel()
	most := 2
	if soak {
		most = 60
	}
	folder := freshRAM(t)
	// Two, as a sync of rows must not be what makes names of files durable.
	disks := []*device{newDevice(t, filepath.Join(folder, "state"), 64<<20), newDevice(t, filepath.Join(folder, "mirror"), 64<<20)}
	o := newOrdeal(t, 60, filepath.Join(disks[0].mounted, "data"), filepath.Join(disks[1].mounted, "mirror"))
	cuts := o.cutAll(disks, most)
	o.kill()
	for _, d := range disks {
		d.detach()
	}
	acked, rows, finished := 0, 0, 0
	for i, c := range cuts {
		state, mirror := attach(t, c.images[0], ""), attach(t, c.images[1], "")
		o.data, o.mirror = filepath.Join(state.mounted, "data"), filepath.Join(mirror.mounted, "mirror", "lib")
		o.configure("@every 5s")
		rows += o.rowsHaveFiles()
		o.kept(c.finished)
		o.keptItsWord(c.acked)
		o.settled(time.Minute)
		o.kill()
		o.tidied()
		acked, finished = acked+len(c.acked), finished+len(c.finished)
		for _, d := range []*device{state, mirror} {
			d.detach()
			if err := os.Remove(d.file); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			t.Fatalf("cut %d of %d", i, len(cuts))
		}
	}
	t.Logf("%d power cuts: 0 of %d acknowledged changes lost, 0 of %d rows without their good file, 0 of %d files of finished runs gone", len(cuts), acked, rows, finished)
}

// cutAll has the daemon work under changes until there are so many copies of its disks.
func (o *ordeal) cutAll(disks []*device, most int) (cuts []cut) {
	o.t.Helper()
	taken := make(chan cut, most)
	finished := make(chan map[string]int, 1)
	finished <- map[string]int{}
	left, made := 200, 0
	var begun atomic.Bool
	judge := func(deed) ruling {
		if !begun.Load() || made == most {
			return 0
		}
		if left--; left > 0 {
			return 0
		}
		left = 100 + rand.IntN(400)
		f := <-finished
		finished <- f
		c := cut{acked: o.gate.acknowledged(), finished: f}
		for _, d := range disks { // while the daemon is held still
			image := fmt.Sprintf("%s.cut%d", d.file, made)
			if err := d.snapshot(image); err != nil {
				o.t.Error(err)
			}
			c.images = append(c.images, image)
		}
		made++
		taken <- c
		return 0
	}
	if !o.serveWatched(judge) {
		o.t.Fatal("the daemon ended")
	}
	o.pushed()
	for end := time.Now().Add(5 * time.Minute); len(cuts) < most && time.Now().Before(end); {
		had := o.annals.newest()
		if _, code := o.command("sync", "--quiet", "lib"); code == exit.Done {
			<-finished
			finished <- had
		}
		if !begun.Swap(true) {
			o.churn(20)
		}
		for len(taken) > 0 {
			cuts = append(cuts, <-taken)
		}
	}
	o.calm()
	return cuts
}

// newest is the place of the newest edition of each resource.
func (a *annals) newest() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[string]int, len(a.byURI))
	for uri, all := range a.byURI {
		out[uri] = len(all) - 1
	}
	return out
}

// edition is the place of what the mirror holds among the editions of a resource, -1 if there is no file.
func (o *ordeal) edition(uri string) int {
	o.t.Helper()
	b, err := os.ReadFile(pathIn(o.mirror, uri))
	if errors.Is(err, fs.ErrNotExist) {
		return -1
	}
	n := o.annals.number(uri, sha256.Sum256(b))
	if err != nil || n < 0 {
		o.t.Errorf("%s holds %d bytes that were never published, %v", uri, len(b), err)
	}
	return n
}

// kept insists that the mirror holds editions at least as new as these, but for what was deleted since.
func (o *ordeal) kept(least map[string]int) {
	o.t.Helper()
	for uri, n := range least {
		if at := o.edition(uri); at < n && !o.annals.goneSince(uri, n) {
			o.t.Errorf("%s is at edition %d, a finished run had brought %d", uri, at, n)
		}
	}
}

// listed reads `ls --json`.
func (o *ordeal) listed(flags ...string) (rows []struct{ URI, SHA256, State string }) {
	o.t.Helper()
	out, code := o.command(append(append([]string{"ls", "--json"}, flags...), "lib")...)
	for line := range strings.Lines(out) {
		var row struct{ URI, SHA256, State string }
		if err := json.Unmarshal([]byte(line), &row); err != nil || code != exit.Done {
			o.t.Fatalf("ls ended with %d, %v: %s", code, err, out)
		}
		rows = append(rows, row)
	}
	return rows
}

// rowsHaveFiles insists that what a row calls present is there, in that edition or in one that was placed just before the
// cut and not recorded yet.
func (o *ordeal) rowsHaveFiles() (rows int) {
	o.t.Helper()
	for _, row := range o.listed() {
		sum, err := hex.DecodeString(row.SHA256)
		if row.State != "present" || err != nil || len(sum) != sha256.Size {
			continue
		}
		n := o.annals.number(row.URI, [sha256.Size]byte(sum))
		if at := o.edition(row.URI); at < n && !o.annals.goneSince(row.URI, n) {
			o.t.Errorf("the row of %s says edition %d, the file is %d", row.URI, n, at)
		}
		rows++
	}
	return rows
}

// keptItsWord begins the daemon where no document tells what there is to do, and has it do what it acknowledged.
func (o *ordeal) keptItsWord(acked []ackedChange) {
	o.t.Helper()
	o.mute.Store(true)
	defer o.mute.Store(false)
	o.serveDaemon()
	o.until("what was acknowledged is done or owed", 20*time.Second, func() bool { return len(o.lost(acked)) == 0 })
}

// lost are the acknowledged changes that are neither done nor owed.
func (o *ordeal) lost(acked []ackedChange) (lost []ackedChange) {
	o.t.Helper()
	owed := map[string]bool{}
	for _, row := range o.listed("--owed") {
		owed[row.URI] = true
	}
	living := o.annals.living()
	for _, c := range acked {
		n := o.annals.since(c.uri, c.at)
		at := o.edition(c.uri)
		_, lives := living[c.uri]
		switch gone := o.annals.goneSince(c.uri, n); {
		case n < 0, at >= n, owed[c.uri], gone && at < 0:
		case gone && lives: // the Source itself denies it by now, so documents decide
		default:
			lost = append(lost, c)
		}
	}
	return lost
}
