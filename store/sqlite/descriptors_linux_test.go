package sqlite

import (
	"os"
	"path/filepath"
	"resyncd/store/sqlite/dbfile"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOutOfDescriptors: that none is left passes. What the log needs it has since the start, so the first commit of a process that
// has none works, and so do those that come later (F11). Not parallel: the process has none.
func TestOutOfDescriptors(t *testing.T) {
	dir := t.TempDir()
	f := newFilled(t, filepath.Join(dir, "state.db"))
	h := openHub(t, filepath.Join(dir, "hub.db"))
	subscribe := func() error {
		return h.Write(t.Context(), "subscribe", func(tx *dbfile.Session) {
			tx.Exec("INSERT INTO subscription DEFAULT VALUES")
		})
	}
	if err := subscribe(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []interface{ Close() error }{f.s, h} { // a restart: it finds all as it should be and commits nothing
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	f.s, h = open(t, f.s.db.Path()), openHub(t, h.Path())
	defer h.Close()
	deliver := func() error {
		f.n++
		return f.deliver(t, f.n)
	}
	back := starve(t)
	for what, commit := range map[string]func() error{"delivery": deliver, "subscription": subscribe} {
		if err := commit(); err != nil {
			t.Errorf("a %s without descriptors: %v", what, err)
		}
	}
	back()
	for what, commit := range map[string]func() error{"delivery": deliver, "subscription": subscribe} {
		if err := commit(); err != nil {
			t.Errorf("a %s after that: %v", what, err)
		}
	}
}

func openHub(t *testing.T, path string) *dbfile.File {
	t.Helper()
	f, err := dbfile.Open(t.Context(), path, dbfile.Schema{
		Owner: "hub", Application: 1, Scripts: []string{"CREATE TABLE subscription (id INTEGER PRIMARY KEY) STRICT"},
	}, dbfile.Options{Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// starve takes all descriptors that this process may have, until back is called.
func starve(t *testing.T) (back func()) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(was.Cur, 128), Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	var taken []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		taken = append(taken, f)
	}
	return func() {
		for _, f := range taken {
			_ = f.Close()
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	}
}
