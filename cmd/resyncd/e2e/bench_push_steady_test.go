package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
	syncengine "resyncd/sync"
)

// BenchmarkPushSteady is BenchmarkPush at 50 changes a second, of new and of known resources, with the machine idle between
// two: nothing is warm then, so each takes about twice as long. "change" ends when the file and its record are durable and the
// daemon says so, "new-file" and "known-file" when the file has its name, verified (goal 7; Linux). It fails unless every file is there and right in the end.
// One iteration takes 20 ms; for a p99 that means something run it with -benchtime=1000x.
func BenchmarkPushSteady(b *testing.B) {
	const every = 20 * time.Millisecond
	open := map[rsdoc.Micros]bool{}   // changes that no notification was mirrored for
	changed := map[string]time.Time{} // by file
	w := wireBy(b, source.Options{OnChange: func(c source.Change) {
		open[c.Datetime] = true
		changed[path.Base(c.URI)] = time.UnixMicro(int64(c.Datetime))
	}})
	clear(open) // the first ones ended with wire
	clear(changed)
	named := watchNames(b, w.folderOf(b, "first"))
	var took, toNew, toKnown []time.Duration
	take := func(m syncengine.Mirrored) {
		now := time.Now()
		for at := range open {
			if at > rsdoc.Micros(m.From) && at <= rsdoc.Micros(m.Until) {
				took = append(took, now.Sub(time.UnixMicro(int64(at))))
				delete(open, at)
			}
		}
		if m.Owed > 0 {
			b.Errorf("%d changes could not be mirrored", m.Owed)
		}
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	bodies := map[string][]byte{"first": nil}
	for i := 0; b.Loop(); i++ {
		for waits := true; waits; {
			select {
			case m := <-w.mirrored:
				take(m)
			case n := <-named:
				switch at, ok := changed[n.name]; {
				case ok && strings.HasPrefix(n.name, "new"):
					toNew = append(toNew, n.at.Sub(at))
				case ok:
					toKnown = append(toKnown, n.at.Sub(at))
				}
			case <-ticker.C:
				waits = false
			}
		}
		name := fmt.Sprintf("new%d", i)
		if i%2 > 0 {
			name = fmt.Sprintf("known%d", i*7%64)
		}
		bodies[name] = kibibyte()
		if err := w.src.Put(name, bodies[name]); err != nil {
			b.Fatal(err)
		}
	}
	late := time.After(30 * time.Second)
	for len(open) > 0 {
		select {
		case m := <-w.mirrored:
			take(m)
		case <-late:
			b.Fatalf("%d changes were not mirrored in time", len(open))
		}
	}
	if len(took) == 0 {
		b.Fatal("nothing was pushed")
	}
	reportTimes(b, "change", took)
	if len(toNew) > 0 && len(toKnown) > 0 {
		reportTimes(b, "new-file", toNew)
		reportTimes(b, "known-file", toKnown)
	}
	w.insist(b, bodies)
}

// folderOf is the folder of the mirror that a file lies in.
func (w *wired) folderOf(b *testing.B, name string) string {
	b.Helper()
	var folder string
	err := filepath.WalkDir(w.mirror, func(at string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() == name {
			folder = filepath.Dir(at)
		}
		return err
	})
	if err != nil || folder == "" {
		b.Fatalf("%s is not in %s: %v", name, w.mirror, err)
	}
	return folder
}

// insist fails unless the mirror has just those files, whatever the content of one whose body is nil.
func (w *wired) insist(b *testing.B, bodies map[string][]byte) {
	b.Helper()
	found := 0
	err := filepath.WalkDir(w.mirror, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if e.Name() == ".resyncd" {
				return fs.SkipDir
			}
			return nil
		}
		want, ok := bodies[e.Name()]
		if !ok {
			return nil
		}
		found++
		got, err := os.ReadFile(path)
		if err == nil && want != nil && !bytes.Equal(got, want) {
			b.Errorf("%s: sha-256 %x, want %x", e.Name(), sha256.Sum256(got), sha256.Sum256(want))
		}
		return err
	})
	if err != nil {
		b.Error(err)
	}
	if found != len(bodies) {
		b.Errorf("%d files in the mirror, want %d", found, len(bodies))
	}
}
