package e2e_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/destination/peer/hub"
	"resyncd/destination/peer/hub/hubstate"
	"resyncd/destination/peer/source"
)

// ordeal is a living Source and a hub in this process, and the daemon in a process of its own, which is killed, starved
// and cut off. Between hub and daemon stands a turnstile that remembers what was acknowledged.
type ordeal struct {
	t       *testing.T
	dir     string // of the configuration, where commands run
	data    string // data_dir
	mirror  string // of the one Source, lib
	annals  *annals
	src     *source.Source
	options source.Options // of the Source
	base    string         // of the Source
	mute    atomic.Bool    // the Source serves no documents, only resources
	front   atomic.Pointer[mischief]
	gate    *turnstile
	asked   asked           // what the Source was asked for
	relay   hubstate.State  // what the hub knows: callbacks and secrets
	door    door            // to the hub
	roll    func(n int) int // chooses from [0, n) what happens to the Source

	daemon *process
	calm   func() // ends the changes that churn began
}

// freshRAM is a folder in memory where there is one: what is synced there costs nothing, and is kept when a process dies.
func freshRAM(t *testing.T) string {
	t.Helper()
	const ram = "/dev/shm"
	if info, err := os.Stat(ram); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(ram, "resyncd-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// newOrdeal begins with a Source of so many resources, with these options beside its own; data and mirror may be "" for
// folders in memory.
func newOrdeal(t *testing.T, resources int, data, mirror string, tune ...func(*source.Options)) *ordeal {
	t.Helper()
	o := &ordeal{t: t, dir: freshRAM(t), annals: newAnnals(), gate: &turnstile{}, calm: func() {}, roll: rand.IntN}
	o.options = source.Options{ChangeListSize: 200, KeepChangeLists: -1}
	for _, tune := range tune {
		tune(&o.options)
	}
	if o.data = data; data == "" {
		o.data = filepath.Join(o.dir, "data")
	}
	if mirror == "" {
		mirror = filepath.Join(o.dir, "mirror")
	}
	o.mirror = filepath.Join(mirror, "lib")
	o.publish(resources)
	t.Cleanup(o.end)
	o.configure("@every 5s")
	return o
}

// publish brings Source and hub to life.
func (o *ordeal) publish(resources int) {
	o.t.Helper()
	bed := newBed(o.t)
	relayAt, relayURL := bed.listen()
	srv := httptest.NewServer(http.HandlerFunc(o.serve))
	o.base = srv.URL
	o.options.Base, o.options.Hub, o.options.Client, o.options.OnChange = srv.URL, relayURL+"/", bed.client, o.annals.heard
	o.src = bed.source(o.options)
	for i := range resources {
		o.put(fmt.Sprintf("d%d/r%03d.txt", i%5, i))
	}
	o.door.Listener = relayAt
	o.relay = bed.hub(o.dir, &o.door, hub.Options{Base: relayURL + "/", RetryBase: 50 * time.Millisecond})
	o.gate.Server = httptest.NewServer(o.gate)
	bed.run(o.src.Run)
	o.t.Cleanup(func() {
		bed.stop()
		o.gate.Server.CloseClientConnections()
		bed.rest()
		srv.Close()
		o.gate.Server.Close()
	})
}

func (o *ordeal) serve(w http.ResponseWriter, r *http.Request) {
	o.asked.note(r.URL.Path)
	if o.mute.Load() && (r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, "/.")) {
		http.Error(w, "no documents now", http.StatusServiceUnavailable)
		return
	}
	if m := o.front.Load(); m != nil {
		m.ServeHTTP(w, r)
		return
	}
	o.src.Handler().ServeHTTP(w, r)
}

// configure writes the configuration.
func (o *ordeal) configure(schedule string) {
	o.t.Helper()
	text := fmt.Sprintf(`data_dir: %q
mirror: %q
callback: { listen: "127.0.0.1:0", base_url: "%s/cb" }
console: { listen: "" }
network: { allow: [127.0.0.0/8] }
sources:
  - { name: lib, url: "%s/", schedule: %q }
`, o.data, filepath.Dir(o.mirror), o.gate.Server.URL, o.base, schedule)
	if err := os.WriteFile(filepath.Join(o.dir, "resyncd.yaml"), []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
}

// put publishes a new edition of a resource.
func (o *ordeal) put(name string) {
	o.t.Helper()
	if err := o.src.Put(name, o.annals.body()); err != nil {
		o.t.Error(err)
	}
}

// names are those that were ever published.
func (o *ordeal) names() []string {
	uris := o.annals.uris()
	for i, uri := range uris {
		uris[i] = strings.TrimPrefix(uri, o.base+"/")
	}
	return uris
}

// change does one thing to the Source: three of five are updates, the others creations and deletions.
func (o *ordeal) change() {
	names := o.names()
	name := names[o.roll(len(names))]
	switch dice := o.roll(10); {
	case dice < 6:
		o.put(name)
	case dice < 8:
		o.put(fmt.Sprintf("new/%d.txt", o.roll(1000)))
	default:
		o.src.Delete(name)
	}
}

// churn changes the Source so many times a second, until calm.
func (o *ordeal) churn(rate int) (changes *atomic.Int64) {
	stop, done := make(chan struct{}), make(chan struct{})
	changes = new(atomic.Int64)
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				o.change()
				changes.Add(1)
			}
		}
	}()
	o.calm = sync.OnceFunc(func() { close(stop); <-done })
	return changes
}

// command runs the program beside the daemon and returns what it writes and how it ends.
func (o *ordeal) command(args ...string) (out string, code int) {
	o.t.Helper()
	cmd := exec.Command("resyncd", args...)
	cmd.Dir, cmd.Env = o.dir, childEnv()
	b, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		o.t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// childEnv is the environment of processes: none of ours, and a -race test must not wait a second at each end.
func childEnv() []string {
	madeOf()
	return append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "RESYNCD_") }), "GORACE=atexit_sleep_ms=0")
}

// begin starts the daemon and waits until it listens; command is what to run, "resyncd" or what watches it.
func (o *ordeal) begin(cmd *exec.Cmd) {
	o.t.Helper()
	p := &process{cmd: cmd, ended: make(chan struct{})}
	cmd.Dir, cmd.Env = o.dir, childEnv()
	cmd.Stdout, cmd.Stderr = &p.out, &p.err
	if err := cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	o.daemon = p
	go func() {
		_ = cmd.Wait() // whoever waits for the end looks at its code
		close(p.ended)
	}()
}

// serveDaemon starts it and opens the turnstile to it.
func (o *ordeal) serveDaemon() {
	o.t.Helper()
	o.begin(exec.Command("resyncd", "serve"))
	o.listening()
}

// listening waits until the daemon has named its address, and opens the turnstile to it. It is false if the daemon ended.
func (o *ordeal) listening() bool {
	o.t.Helper()
	p, up := o.daemon, true
	o.until("the daemon listens", 30*time.Second, func() bool {
		select {
		case <-p.ended:
			up = false
			return true
		default:
		}
		_, at, found := strings.Cut(p.out.String(), " listens on ")
		at, _, whole := strings.Cut(at, "\n")
		if found && whole {
			o.gate.open(at)
		}
		return found && whole
	})
	return up
}

// kill ends the daemon as a power cut of its process.
func (o *ordeal) kill() {
	o.gate.open("")
	if p := o.daemon; p != nil {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if s := p.err.String(); strings.Contains(s, "panic:") || strings.Contains(s, "DATA RACE") {
			o.t.Errorf("the daemon said:\n%s", s)
		}
	}
	o.daemon = nil
}

func (o *ordeal) end() {
	o.calm()
	o.kill()
}

// until asks again and again, and fails the test if the answer stays no.
func (o *ordeal) until(what string, within time.Duration, ask func() bool) (took time.Duration) {
	o.t.Helper()
	began := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ask() {
		if time.Since(began) > within {
			missing, wrong, extra, err := o.annals.differences(o.mirror)
			o.t.Fatalf("waited %s in vain until %s; missing %v, wrong %v, extra %v, %v; the daemon said:\n%s",
				within, what, missing, wrong, extra, err, o.lastWords())
		}
		<-tick.C
	}
	return time.Since(began)
}

// lastWords are the log of the daemon and what each of its goroutines is at.
func (o *ordeal) lastWords() string {
	p := o.daemon
	if p == nil {
		return ""
	}
	said := tail(p.err.String(), 3000)
	before := len(p.err.String())
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-p.ended:
	case <-time.After(5 * time.Second):
	}
	return said + p.err.String()[before:]
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// converged waits until the mirror is what the Source is, and returns how long that took.
func (o *ordeal) converged(within time.Duration) time.Duration {
	o.t.Helper()
	return o.until("the mirror equals the Source", within, func() bool {
		missing, wrong, extra, err := o.annals.differences(o.mirror)
		return err == nil && len(missing)+len(wrong)+len(extra) == 0
	})
}

// settled waits for that, and has a pull confirm it and all who can tell agree.
func (o *ordeal) settled(within time.Duration) {
	o.t.Helper()
	o.converged(within)
	if out, code := o.command("sync", "--quiet", "lib"); code != exit.Done {
		o.t.Errorf("a pull after catching up ended with %d: %s", code, out)
	}
	o.agreed()
}

// agreed: rows and files, the auditor, and a plain comparison by hash all say that the mirror is what the Source is.
func (o *ordeal) agreed() {
	o.t.Helper()
	for _, judge := range []string{"verify", "audit"} {
		if out, code := o.command(judge, "--json", "lib"); code != exit.Done {
			o.t.Errorf("%s ended with %d:\n%s", judge, code, out)
		}
	}
	o.annals.equals(o.t, o.mirror)
}
