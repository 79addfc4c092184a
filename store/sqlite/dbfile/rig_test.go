package dbfile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a file with a table of items.
type rig struct {
	*File
	n      int
	syncer func(log *os.File) error
}

func testSchema() Schema {
	return Schema{Owner: "test", Application: 1, Scripts: []string{"CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT) STRICT"}}
}

func newRig(t testing.TB, path string) *rig {
	t.Helper()
	r := &rig{syncer: syncData}
	f, err := Open(t.Context(), path, testSchema(), Options{Sync: func(log *os.File) error { return r.syncer(log) }})
	if err != nil {
		t.Fatal(err)
	}
	r.File = f
	t.Cleanup(func() { _ = f.Close() })
	if err := r.put(); err != nil {
		t.Fatal(err)
	}
	return r
}

func inTemp(t testing.TB) *rig { return newRig(t, filepath.Join(t.TempDir(), "x.db")) }

// put adds an item, durably.
func (r *rig) put() error { return r.Write(context.Background(), "put", r.add) }

// putAsync adds one that a power cut may take back.
func (r *rig) putAsync() error {
	return r.Write(context.Background(), "put", func(tx *Session) {
		tx.Repeatable()
		r.add(tx)
	})
}

func (r *rig) add(tx *Session) {
	r.n++
	tx.Exec("INSERT INTO item (name) VALUES (?)", fmt.Sprint(r.n))
}

// items is how many there are, as a reader sees it.
func (r *rig) items(t testing.TB) (n int) {
	t.Helper()
	read := r.Read(context.Background(), "count")
	if !read.Get("SELECT count(*) FROM item", nil, &n) {
		t.Fatal(read.Err())
	}
	return n
}

// countSyncs counts the syncs of the log from now on.
func (r *rig) countSyncs() *int {
	n := 0
	r.syncer = func(log *os.File) error {
		n++
		return syncData(log)
	}
	return &n
}

// closeAll closes all connections, which removes the log.
func (r *rig) closeAll() {
	r.r.db.SetMaxIdleConns(0) // closes those of the readers
	r.r.db.SetMaxIdleConns(readers)
	r.w.drop() // the last one; those of readers leave the log
}
