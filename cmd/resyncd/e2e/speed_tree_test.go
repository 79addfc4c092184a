//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/destination/peer/source"
)

// living is a folder that Sources serve, of files of 4 KiB, a hundred to a folder.
type living struct {
	b      *testing.B
	dir    string
	names  []string
	made   int
	random *rand.ChaCha8
}

func (g *rig) tree(files int) *living {
	g.b.Helper()
	t := &living{b: g.b, dir: g.folder("tree"), random: rand.NewChaCha8([32]byte{7})}
	for range files {
		t.add()
	}
	long := time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC) // a second that is over, so that a Source says when
	for _, name := range t.names {
		if err := os.Chtimes(filepath.Join(t.dir, name), long, long); err != nil {
			g.b.Fatal(err)
		}
	}
	return t
}

func (t *living) add() {
	name := fmt.Sprintf("%04d/%06d", t.made/100, t.made)
	t.made++
	t.names = append(t.names, name)
	t.write(name)
}

func (t *living) write(name string) {
	t.b.Helper()
	body := make([]byte, 4096)
	_, _ = t.random.Read(body) // never fails
	file := filepath.Join(t.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.b.Fatal(err)
	}
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.b.Fatal(err)
	}
}

// change makes n changes, each to another file: of ten, eight are updates, one is a new file, and one file goes.
func (t *living) change(n int) {
	t.b.Helper()
	r := rand.New(t.random)
	for i, at := range r.Perm(len(t.names))[:n*9/10] {
		if i >= n/10 {
			t.write(t.names[at])
			continue
		}
		if err := os.Remove(filepath.Join(t.dir, t.names[at])); err != nil {
			t.b.Fatal(err)
		}
		t.names[at] = ""
	}
	t.names = slices.DeleteFunc(t.names, func(name string) bool { return name == "" })
	for range n - n*9/10 {
		t.add()
	}
}

// serve starts rssource over the tree. It looks rarely, as looking costs what is measured beside it.
func (g *rig) serve(t *living) *origin {
	return g.source("--dir", t.dir, "--scan-every", "2s")
}

// countedSource is a Source over the tree that counts what it is asked, in this process and thus not for timing.
type countedSource struct {
	*origin
	src   *source.Source
	asked atomic.Int64
}

func (g *rig) countedSource(t *living) *countedSource {
	g.b.Helper()
	c := &countedSource{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.asked.Add(1)
		c.src.Handler().ServeHTTP(w, r)
	}))
	g.b.Cleanup(server.Close)
	var err error
	if c.src, err = source.New(g.b.Context(), source.Options{Base: server.URL, Dir: t.dir}); err != nil {
		g.b.Fatal(err)
	}
	g.b.Cleanup(func() {
		if err := c.src.Close(); err != nil {
			g.b.Error(err)
		}
	})
	c.origin = &origin{base: server.URL + "/"}
	g.read(c.origin)
	return c
}

// look lets the Source see what has changed in its folder.
func (g *rig) look(ctx context.Context, c *countedSource) {
	g.b.Helper()
	if err := c.src.Scan(ctx); err != nil {
		g.b.Fatal(err)
	}
	g.read(c.origin)
}

// requests counts what one run asks.
func (c *countedSource) requests(run func()) string {
	before := c.asked.Load()
	run()
	return strconv.FormatInt(c.asked.Load()-before, 10)
}
