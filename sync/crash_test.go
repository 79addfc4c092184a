package sync

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
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
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/source"
	"resyncd/store"
)

// crashChild carries the Source's URL, the mirror and the state to the process that is killed.
const crashChild = "RESYNCD_CRASH_CHILD"

// TestCrashChild is no test by itself: it is the process that TestCrash kills. It catches up again and again.
func TestCrashChild(t *testing.T) {
	env := os.Getenv(crashChild)
	if env == "" {
		t.Skip("runs as the child of TestCrash")
	}
	go func() { // the parent died
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	part := strings.Split(env, "\n")
	r := &rig{t: t, srv: &httptest.Server{URL: part[0]}, root: part[1], db: part[2], fetch: quick}
	e, target, done := r.open()
	defer done()
	for {
		fmt.Println("run")
		results, err := e.Run(context.Background(), target, RunOptions{From: store.NoTime})
		if err != nil {
			fmt.Printf("error %v\n", err)
			return
		}
		for _, res := range results {
			if res.InStep {
				fmt.Println("in step")
			}
		}
	}
}

// quick gives up early: what fails is tried again by the next run anyway.
var quick = fetch.Options{Retries: -1}

// truth is what a Source published, version by version (faults.md, "truth source").
type truth struct {
	mu       sync.Mutex
	versions map[string][][32]byte // by name
	live     map[string][]byte
	bodies   map[string][]byte // the last body, also of deleted ones
}

func newTruth() *truth {
	return &truth{versions: map[string][][32]byte{}, live: map[string][]byte{}, bodies: map[string][]byte{}}
}

// heard is the Source's OnChange.
func (tr *truth) heard(base string, c source.Change) {
	if c.Length == 0 && c.SHA256 == ([32]byte{}) {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	name := strings.TrimPrefix(c.URI, base+"/")
	tr.versions[name] = append(tr.versions[name], c.SHA256)
}

func (tr *truth) names() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	out := make([]string, 0, len(tr.versions))
	for n := range tr.versions {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// since finds the first version from index last on that has this sum.
func (tr *truth) since(name string, last int, sum [32]byte) (at int, known bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	all := tr.versions[name]
	for i := last; i < len(all); i++ {
		if all[i] == sum {
			return i, true
		}
	}
	return 0, slices.Contains(all, sum)
}

// sampler is the oracle in motion: it reads final paths all the time.
type sampler struct {
	r          *rig
	tr         *truth
	last       map[string]int
	every      time.Duration // it looks at twenty of them
	reads      int
	violations []string
}

func (s *sampler) run(ctx context.Context) {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for names := []string(nil); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if len(names) < 20 {
			names = append(names, s.tr.names()...)
		}
		for _, n := range names[:min(20, len(names))] {
			s.sample(n)
		}
		names = names[min(20, len(names)):]
	}
}

func (s *sampler) sample(name string) {
	b, err := os.ReadFile(s.r.path(name))
	if err != nil {
		return
	}
	s.reads++
	at, known := s.tr.since(name, s.last[name], sha256.Sum256(b))
	switch {
	case at > 0 || known && s.last[name] == 0:
		s.last[name] = at
	case known:
		s.violations = append(s.violations, fmt.Sprintf("P6: %s went back from version %d: %.40q", name, s.last[name], b))
	default:
		s.violations = append(s.violations, fmt.Sprintf("P2: %s holds %d bytes that were never published: %.40q", name, len(b), b))
	}
}

// change does one random thing to the Source. Bodies are unlike each other, but for those that come again.
func (tr *truth) change(r *rig, rnd *rand.Rand, serial int) {
	names := tr.names()
	name := names[rnd.IntN(len(names))]
	switch dice := rnd.IntN(10); {
	case dice < 5 || tr.live[name] == nil && dice < 7:
		tr.put(r, name, versionBody(name, serial, rnd))
	case dice < 7:
		name = fmt.Sprintf("new/%d.txt", serial)
		tr.put(r, name, versionBody(name, serial, rnd))
	case dice < 9:
		r.src.Delete(name)
		tr.live[name] = nil
	case tr.live[name] == nil: // created again as it was
		tr.put(r, name, tr.bodies[name])
	default: // gone and back within one run
		r.src.Delete(name)
		tr.put(r, name, tr.bodies[name])
	}
}

func (tr *truth) put(r *rig, name string, b []byte) {
	r.put(name, string(b))
	tr.live[name], tr.bodies[name] = b, b
}

func versionBody(name string, serial int, rnd *rand.Rand) []byte {
	head := fmt.Sprintf("%s version %d\n", name, serial)
	size := len(head) + rnd.IntN(2000)
	if rnd.IntN(8) == 0 {
		size += rnd.IntN(300_000)
	}
	return []byte(head + strings.Repeat("x", size-len(head)))
}

// TestCrash kills catch-ups at random moments while the Source changes and a reader looks on (F1, P1, P2, P6): no torn or
// older file is ever seen, and one run afterwards ends in step without leftovers.
func TestCrash(t *testing.T) {
	t.Parallel()
	kills, look := usual(25), 2*time.Millisecond
	if testing.Short() {
		kills = 6
	}
	if raced { // a reader that reads as often takes a third of the processors from those that it looks at
		kills, look = 12, 10*time.Millisecond
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	tr := newTruth()
	r := newRig(t, source.Options{ChangeListSize: 25, OnChange: func(c source.Change) {
		_, rest, _ := strings.Cut(c.URI, "://")
		host, _, _ := strings.Cut(rest, "/")
		tr.heard("http://"+host, c)
	}}, nil)
	r.fetch = quick
	for i := range 120 {
		name := fmt.Sprintf("d%d/r%03d.txt", i%5, i)
		tr.put(r, name, versionBody(name, 0, rnd))
	}
	var calm atomic.Bool
	r.interpose(trouble(seed, &calm))

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	saw := &sampler{r: r, tr: tr, last: map[string]int{}, every: look}
	wg.Go(func() { saw.run(ctx) })
	changes := 0
	wg.Go(func() {
		own := rand.New(rand.NewPCG(seed, 2))
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				changes++
				tr.change(r, own, changes)
			}
		}
	})
	inStep := 0
	for i := range kills {
		inStep += killOne(t, r, i%3 == 2, time.Duration(rnd.IntN(400))*time.Millisecond)
	}
	calm.Store(true)
	stop()
	wg.Wait()
	t.Logf("%d kills, %d changes, %d reads, in step %d times before a kill", kills, changes, saw.reads, inStep)
	for _, v := range saw.violations {
		t.Error(v)
	}
	if saw.reads == 0 {
		t.Error("the reader read nothing")
	}
	res := r.must()
	t.Logf("afterwards: %+v", res)
	r.tidy()
}

// trouble answers a few requests for resources wrongly until calm.
func trouble(seed uint64, calm *atomic.Bool) func(http.ResponseWriter, *http.Request) bool {
	rnd := rand.New(rand.NewPCG(seed, 3))
	var mu sync.Mutex
	return func(w http.ResponseWriter, req *http.Request) bool {
		mu.Lock()
		dice := rnd.IntN(100)
		mu.Unlock()
		if calm.Load() || strings.HasPrefix(req.URL.Path, "/.") {
			return false
		}
		switch dice {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 1:
			_, _ = io.WriteString(w, "never published")
		case 2:
			w.Header().Set("Content-Length", "100000")
			_, _ = io.WriteString(w, "cut")
			panic(http.ErrAbortHandler)
		default:
			return false
		}
		return true
	}
}

// killOne starts the child and kills it a while after its first run began, or after it was in step first. It returns how
// often it was.
func killOne(t *testing.T, r *rig, late bool, after time.Duration) (inStep int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashChild$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), crashChild+"="+strings.Join([]string{r.srv.URL, r.root, r.db}, "\n"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	began := false
	sentence := func() {
		began = true
		kill := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		t.Cleanup(func() { kill.Stop() })
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		switch line := lines.Text(); {
		case line == "run" && !began && !late:
			sentence()
		case line == "in step":
			if inStep++; !began {
				sentence()
			}
		case strings.HasPrefix(line, "error"), strings.HasPrefix(line, "panic"):
			t.Errorf("the child says: %s", line)
		}
	}
	err = cmd.Wait()
	if !began || cmd.ProcessState.Exited() {
		t.Fatalf("the child ended by itself: %v\n%s", err, stderr.String())
	}
	return inStep
}

// tidy insists that no stage is left and that rows and files of the trash agree.
func (r *rig) tidy() {
	r.t.Helper()
	reserved := filepath.Join(r.root, ".resyncd")
	_ = filepath.WalkDir(filepath.Join(reserved, "stage"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "lock" && !strings.HasSuffix(d.Name(), ".lock") {
			r.t.Errorf("left in the stage: %s", path)
		}
		return nil
	})
	files, err := os.ReadDir(filepath.Join(reserved, "trash"))
	if err != nil {
		r.t.Fatal(err)
	}
	onDisk := []string{}
	for _, f := range files {
		onDisk = append(onDisk, f.Name())
	}
	rows := []string{}
	r.with(func(e *Engine, _ Target) {
		src, err := e.Store.Source(context.Background(), "test")
		if err != nil {
			r.t.Fatal(err)
		}
		ts, err := e.Store.Trash(context.Background(), src.ID, store.NoTime, "", 10_000)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, tr := range ts {
			rows = append(rows, tr.ID)
		}
	})
	slices.Sort(onDisk)
	slices.Sort(rows)
	if diff := cmp.Diff(rows, onDisk); diff != "" {
		r.t.Errorf("trash rows and files differ (-rows +files):\n%s", diff)
	}
}
