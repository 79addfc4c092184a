package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/store"
	"resyncd/store/storetest"
)

func TestHubConformance(t *testing.T) {
	t.Parallel()
	storetest.RunHub(t, func(t testing.TB) func() store.HubState {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		return func() store.HubState { return openHub(t, filepath.Join(dir, "hub.db")) }
	})
}

func openHub(t testing.TB, path string) *Hub {
	t.Helper()
	h, err := OpenHub(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestHubMigration: what an older hub recorded is there, and was asked for in the manner of WebSub (F18).
func TestHubMigration(t *testing.T) {
	t.Parallel()
	scripts, err := hubScripts()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "hub.db")
	db, err := sql.Open("sqlite", dsn(path, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{scripts[0], fmt.Sprintf("PRAGMA application_id = %d", hubApplicationID), "PRAGMA user_version = 1",
		"INSERT INTO hub_topic (url) VALUES ('t')",
		"INSERT INTO hub_subscription (topic_id, callback, secret, verified, expires, cursor) VALUES (1, 'c', 's', 10, 100, 3)"} {
		if _, err := db.ExecContext(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	h := openHub(t, path)
	defer h.Close()
	subs, err := h.Subscriptions(t.Context())
	want := []store.HubSubscription{{ID: 1, TopicID: 1, Topic: "t", Callback: "c", Secret: "s", Verified: 10, Expires: 100, Cursor: 3, Next: store.NoTime}}
	if diff := cmp.Diff(want, subs); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestOpenHub(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a?b #%20", "hub.db")
	h := openHub(t, path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	_, err := OpenHub(t.Context(), path, Options{})
	if _, ok := errors.AsType[*store.HeldError](err); !ok {
		t.Errorf("second hub: %v", err)
	}
	var level string
	if err := h.s.w.conn.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&level); err != nil || level != "1" {
		t.Errorf("synchronous is %s, %v", level, err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	openHub(t, path).Close()

	if _, err := OpenHub(t.Context(), path, Options{ReadOnly: true}); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("read only: %v", err)
	}
	mirror := filepath.Join(dir, "state.db")
	open(t, mirror).Close()
	if _, err := OpenHub(t.Context(), mirror, Options{}); !errors.Is(err, store.ErrForeign) {
		t.Errorf("the state of a mirror: %v", err)
	}
	if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, store.ErrForeign) {
		t.Errorf("the state of a hub as that of a mirror: %v", err)
	}
	newer := filepath.Join(dir, "newer.db")
	h = openHub(t, newer)
	if _, err := h.s.w.conn.ExecContext(t.Context(), "PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	h.Close()
	if _, err := OpenHub(t.Context(), newer, Options{}); !errors.Is(err, store.ErrSchema) {
		t.Errorf("newer schema: %v", err)
	}
	if _, err := OpenHub(t.Context(), dir, Options{}); !errors.Is(err, store.ErrForeign) {
		t.Errorf("a folder: %v", err)
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("this is a text of a length that no header has; this is a text that no header has...................."), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenHub(t.Context(), text, Options{}); !errors.Is(err, store.ErrForeign) {
		t.Errorf("a text: %v", err)
	}
}
