package hubdb

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/store"
	"resyncd/store/sqlite"
	"resyncd/store/sqlite/dbfile"
)

func openDB(t testing.TB, path string) *DB {
	t.Helper()
	d, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestMigration: what an older hub recorded is there, and was asked for in the manner of WebSub (F18).
func TestMigration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hub.db")
	f, err := dbfile.Open(t.Context(), path, schema(initial), dbfile.Options{Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	err = f.Write(t.Context(), "record", func(tx *dbfile.Session) {
		for _, step := range []string{"INSERT INTO hub_topic (url) VALUES ('t')",
			"INSERT INTO hub_subscription (topic_id, callback, secret, verified, expires, cursor) VALUES (1, 'c', 's', 10, 100, 3)"} {
			tx.Exec(step)
		}
	})
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	h := openDB(t, path)
	defer h.Close()
	subs, err := h.Subscriptions(t.Context())
	want := []hubstate.Subscription{{ID: 1, TopicID: 1, Topic: "t", Callback: "c", Secret: "s", Verified: 10, Expires: 100, Cursor: 3, Next: store.NoTime}}
	if diff := cmp.Diff(want, subs); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a?b #%20", "hub.db")
	h := openDB(t, path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	_, err := Open(t.Context(), path, nil)
	if _, ok := errors.AsType[*store.HeldError](err); !ok {
		t.Errorf("second hub: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	openDB(t, path).Close()

	mirror := filepath.Join(dir, "state.db")
	state, err := sqlite.Open(t.Context(), mirror, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	state.Close()
	if _, err := Open(t.Context(), mirror, nil); !errors.Is(err, store.ErrForeign) {
		t.Errorf("the state of a mirror: %v", err)
	}
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); !errors.Is(err, store.ErrForeign) {
		t.Errorf("the state of a hub as that of a mirror: %v", err)
	}
	newer := filepath.Join(dir, "newer.db")
	h = openDB(t, newer)
	err = h.f.Write(t.Context(), "age", func(tx *dbfile.Session) { tx.Exec("PRAGMA user_version = 99") })
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
	if _, err := Open(t.Context(), newer, nil); !errors.Is(err, store.ErrSchema) {
		t.Errorf("newer schema: %v", err)
	}
	if _, err := Open(t.Context(), dir, nil); !errors.Is(err, store.ErrForeign) {
		t.Errorf("a folder: %v", err)
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("this is a text of a length that no header has; this is a text that no header has...................."), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), text, nil); !errors.Is(err, store.ErrForeign) {
		t.Errorf("a text: %v", err)
	}
}
