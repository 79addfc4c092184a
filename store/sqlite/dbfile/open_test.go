package dbfile

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/store"
)

// TestSettings: the settings are in force; SQLite silently ignores a mistyped one.
func TestSettings(t *testing.T) {
	t.Parallel()
	r := inTemp(t)
	ask := func(q interface {
		QueryRow(string, ...any) *sql.Row
	}, name string) string {
		t.Helper()
		var got string
		if err := q.QueryRow("PRAGMA " + name).Scan(&got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := map[string]string{"journal_mode": "wal", "synchronous": "1", "foreign_keys": "1", "journal_size_limit": "67108864",
		"busy_timeout": "5000", "cache_size": "-3072", "temp_store": "2", "wal_autocheckpoint": "4000"}
	got := map[string]string{}
	for name := range want {
		var value string
		if err := r.w.conn.QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&value); err != nil {
			t.Fatal(err)
		}
		got[name] = value
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if ask(r.r.db, "query_only") != "1" || ask(r.r.db, "cache_size") != "-512" || ask(r.r.db, "temp_store") != "2" || ask(r.r.db, "application_id") != "1" {
		t.Error("settings of a reader")
	}
	if _, err := r.r.db.Exec("DELETE FROM item"); err == nil {
		t.Error("a reader wrote")
	}
}

// TestFolderIsDurable: the name of each folder that was made is synced, in the folder that it is in, and nothing else (P4).
func TestFolderIsDurable(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no sync of folders there")
	}
	top := t.TempDir()
	a, b := filepath.Join(top, "a"), filepath.Join(top, "a", "b")
	for _, want := range [][]string{{a, top}, nil} {
		var synced []string
		err := makeFolder(b, func(f *os.File) error {
			if !exists(b) {
				t.Error("synced before it was made")
			}
			synced = append(synced, f.Name())
			return syncFolder(f)
		})
		if err != nil || !slices.Equal(synced, want) {
			t.Errorf("synced %q, want %q (%v)", synced, want, err)
		}
	}
	broken := errors.New("broken")
	if err := makeFolder(filepath.Join(top, "c"), func(*os.File) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("a sync that failed: %v", err)
	}
}

// A database that cannot be opened for writing, as on a read-only disk (F9), is told apart from a damaged one, with a hint.
func TestSaysThatItCannotWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none", "state.db")
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = (&File{path: path}).Fail("open", db.PingContext(t.Context()))
	if err == nil || !strings.Contains(err.Error(), "cannot write "+path) || errors.Is(err, store.ErrCorrupt) {
		t.Error(err)
	}
}
