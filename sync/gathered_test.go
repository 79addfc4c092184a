package sync

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"resyncd/sync/plan"
)

// gatherAll are limits by which every list is gathered, from its first entry on, in a few small batches.
func gatherAll(dir string) *plan.Limits {
	return &plan.Limits{Share: math.MaxInt64, Batch: 3, Held: 400, Most: 4000, Dir: dir}
}

// TestGatheredLists takes whole baselines by way of gathering: parts in no order, entries in two of them, a part that breaks off
// and is read anew, runs that are killed; and where there is no folder to gather in, the same with one warning.
func TestGatheredLists(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{"gathered": t.TempDir(), "nowhere": filepath.Join(t.TempDir(), "none")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.set("resourcelist", "/rl.xml")
			var log bytes.Buffer
			life := &mortal{}
			f.engine = func(e *Engine) {
				e.unordered, e.Store = gatherAll(dir), mortalStore{e.Store, life}
				e.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			}
			bodies := f.unordered("first", 0, 60)
			for steps := int64(6); steps < 20; steps += 6 {
				life.left.Store(steps)
				if _, err := f.run(); !errors.Is(err, errKilled) {
					t.Fatalf("killed after %d steps: %v", steps, err)
				}
				emptied(t, dir)
			}
			life.left.Store(math.MaxInt64)
			log.Reset()
			f.one(true)
			f.holds(bodies)
			bodies = f.unordered("then", 10, 57) // what a list does not name goes
			f.one(true)
			f.holds(bodies)
			emptied(t, dir)
			warned := strings.Count(log.String(), "make room")
			if want := map[string]int{"gathered": 0, "nowhere": 2}[name]; warned != want {
				t.Errorf("%d warnings of two runs:\n%s", warned, log.String())
			}
		})
	}
}

// unordered publishes a baseline of n resources in three parts, in no order. Some stand in two of them, and the second part
// breaks off once.
func (f *fake) unordered(text string, minute, n int) (bodies map[string]string) {
	at := `at="` + when(minute) + `"`
	var parts [3][]string
	bodies = map[string]string{}
	for i, n := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
		path := fmt.Sprintf("/r%03d", n)
		bodies[path] = fmt.Sprint(text, n)
		e := f.res(path, bodies[path])
		parts[i%3] = append(parts[i%3], e)
		if i%5 == 0 {
			parts[(i+1)%3] = append(parts[(i+1)%3], e)
		}
	}
	var named []string
	for i, entries := range parts {
		path := fmt.Sprintf("/rl-%d.xml", i)
		text := list("resourcelist", at, entries...)
		broken := i != 1
		f.handle(path, func(w http.ResponseWriter, _ *http.Request) {
			if broken {
				_, _ = io.WriteString(w, text)
				return
			}
			broken = true
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			_, _ = io.WriteString(w, text[:len(text)*2/3])
			panic(http.ErrAbortHandler)
		})
		named = append(named, f.part(path, at))
	}
	f.page("/rl.xml", index("resourcelist", at, named...))
	return bodies
}

func emptied(t *testing.T, folder string) {
	t.Helper()
	if left, err := os.ReadDir(folder); len(left) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestFetchesBeginEarlyInTheList: what a list names first is fetched while most of it is still on its way.
func TestFetchesBeginEarlyInTheList(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	const named = 250 // more than are compared at once in the beginning
	asked := make(chan struct{})
	var once sync.Once
	entries := make([]string, named)
	for i := range entries {
		path := fmt.Sprintf("/%04d", i)
		entries[i] = f.entry(path, fixity("a"))
		f.handle(path, func(w http.ResponseWriter, _ *http.Request) {
			once.Do(func() { close(asked) })
			_, _ = io.WriteString(w, "a")
		})
	}
	whole := list("resourcelist", `at="`+when(0)+`"`, entries...)
	begin := strings.Index(whole, entries[named-1])
	f.set("resourcelist", "/list.xml")
	f.handle("/list.xml", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, whole[:begin])
		_ = http.NewResponseController(w).Flush()
		select {
		case <-asked:
		case <-time.After(20 * time.Second):
			t.Error("nothing is fetched before the list has come whole")
		}
		_, _ = io.WriteString(w, whole[begin:])
	})
	if res, err := f.run(); err != nil || res.Fetched != named || !res.InStep {
		t.Errorf("%+v, %v", res, err)
	}
}
