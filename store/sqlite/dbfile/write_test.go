package dbfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"resyncd/store"
)

// TestMigration: a step that fails, or a kill before the end, leaves the old schema.
func TestMigration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	if err := newRig(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	good := "CREATE TABLE extra (x); ALTER TABLE item ADD COLUMN more TEXT;"
	with := func(steps ...string) Schema {
		s := testSchema()
		s.Scripts = append(s.Scripts, steps...)
		return s
	}
	if _, err := Open(t.Context(), path, with(good, "CREATE TABLE half (x); nonsense;"), Options{}); err == nil ||
		!strings.Contains(err.Error(), "step 3") || !strings.Contains(err.Error(), "the old schema is intact") {
		t.Fatalf("a broken step: %v", err)
	}
	old, err := Open(t.Context(), path, testSchema(), Options{ReadOnly: true})
	if err != nil || old.Version() != 1 {
		t.Fatalf("after a broken step: %v", err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := Open(t.Context(), path, with(good), Options{})
	if err != nil || f.Version() != 2 {
		t.Fatal(err)
	}
	if n := (&rig{File: f}).items(t); n != 1 {
		t.Fatalf("%d items are left", n)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	// And now we are the older program.
	for _, o := range []Options{{}, {ReadOnly: true}} {
		if _, err := Open(t.Context(), path, testSchema(), o); !errors.Is(err, store.ErrSchema) {
			t.Errorf("an older program: %v", err)
		}
	}
}

// TestAlone: a second opening is told who has it.
func TestAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	f, err := Open(t.Context(), path, testSchema(), Options{Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, testSchema(), Options{Alone: true}); err == nil || !strings.Contains(err.Error(), "a test that is running") {
		t.Errorf("a second one: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err = Open(t.Context(), path, testSchema(), Options{Alone: true}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestArguments: arguments mean what they mean to database/sql, and a connection that is given up leaves no statements.
func TestArguments(t *testing.T) {
	t.Parallel()
	type number int
	r := inTemp(t)
	const add = "INSERT INTO given VALUES (?, ?, ?, ?, ?, ?)"
	var got string
	err := r.Write(t.Context(), "test", func(tx *Session) {
		tx.Exec("CREATE TABLE given (a, b, c, d, e, f)")
		if n := tx.Exec(add, number(7), true, nil, "", []byte{}, []byte("x")); n != 1 {
			t.Errorf("%d rows", n)
		}
		tx.Get(`SELECT typeof(a) || typeof(b) || typeof(c) || typeof(d) || typeof(e) || typeof(f) FROM given`, nil, &got)
	})
	for _, wrong := range [][]any{{1, 2, 3, 4, 5}, {1, 2, 3, 4, 5, struct{}{}}} {
		if err := r.Write(t.Context(), "test", func(tx *Session) { tx.Exec(add, wrong...) }); err == nil {
			t.Errorf("no error with %v", wrong)
		}
	}
	if want := "integerintegernulltextblobblob"; err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_ = r.Write(t.Context(), "test", func(*Session) { panic("given up") })
	}()
	if n := len(r.w.stmts.queries()); n != 0 || r.w.conn != nil {
		t.Errorf("%d statements of a connection that is gone", n)
	}
	if err := r.put(); err != nil {
		t.Error(err)
	}
}

// TestFull: a full disk is told apart, nothing of the commit stays, reading goes on, and so does writing once there is
// room (F7).
func TestFull(t *testing.T) {
	t.Parallel()
	r := inTemp(t)
	big := func() error {
		return r.Write(t.Context(), "grow", func(tx *Session) {
			tx.Exec("INSERT INTO item (name) VALUES (?)", strings.Repeat("x", 1<<20))
		})
	}
	for range 2 {
		err := r.Write(t.Context(), "limit", func(tx *Session) {
			tx.Exec("PRAGMA max_page_count = 1") // SQLite takes the present size
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := big(); !errors.Is(err, store.ErrFull) {
			t.Fatalf("on a full disk: %v", err)
		}
	}
	if n := r.items(t); n != 1 {
		t.Fatalf("%d items: it was applied", n)
	}
	// The limit went with the connection, which is not used again after such a failure.
	if err := big(); err != nil {
		t.Fatal(err)
	}
}

// TestBusy: a commit waits for another process that is writing.
func TestBusy(t *testing.T) {
	t.Parallel()
	r := inTemp(t)
	other := newRig(t, r.path)
	inside, leave, left := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		left <- other.Write(context.Background(), "hold", func(*Session) {
			close(inside)
			<-leave
		})
	}()
	<-inside
	done := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		close(started)
		done <- r.put()
	}()
	<-started
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	close(leave)
	for _, c := range []chan error{left, done} {
		if err := <-c; err != nil {
			t.Fatal(err)
		}
	}
}

// TestLogBounded: a log that is too large is folded in and cut after a commit, whatever SQLite itself does.
func TestLogBounded(t *testing.T) {
	t.Parallel()
	r := inTemp(t)
	if walSize(t, r.path) == 0 {
		t.Fatal("no log")
	}
	r.w.checkpointAbove = 1
	if err := r.put(); err != nil {
		t.Fatal(err)
	}
	if got := walSize(t, r.path); got != 0 {
		t.Fatalf("the log has %d bytes after it was folded in", got)
	}
	if r.w.checkpointAbove != walLimit {
		t.Fatalf("the next time is at %d bytes", r.w.checkpointAbove)
	}
}

// TestDropped: a writer whose connection is lost goes on with another, and syncs what it must.
func TestDropped(t *testing.T) {
	t.Parallel()
	r := inTemp(t)
	syncs := r.countSyncs()
	r.w.drop()
	if err := errors.Join(r.put(), r.putAsync()); err != nil || *syncs != 1 {
		t.Fatalf("%d syncs, %v", *syncs, err)
	}
	r.w.broken = errors.New("no")
	if err := r.put(); err == nil {
		t.Fatal("it wrote after the disk had failed")
	}
}

// TestGivesUp: what need not be recorded is not worth waiting for a process that holds the database and does not move.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	r := inTemp(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.w.sem <- struct{}{}
	if err := r.WriteBestEffort(ctx, "ask", r.add); !errors.Is(err, context.Canceled) {
		t.Errorf("it went on waiting: %v", err)
	}
	if err := r.ReadFew(t.Context(), "look", true, func(s *Session) {
		if s.on != preparer(r.r.db) {
			t.Errorf("read by %T though it writes", s.on)
		}
	}); err != nil {
		t.Error(err)
	}
	<-r.w.sem
	if err := r.Write(ctx, "record", r.add); err != nil {
		t.Errorf("what must be recorded was not: %v", err)
	}
}

func walSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestSessionFails: after its first failure a session does nothing, nothing of its transaction is committed and nobody is
// told, and the next one is not touched by it; no rows stay open, which would keep their connection (P4).
func TestSessionFails(t *testing.T) {
	t.Parallel()
	r := inTemp(t)
	own := errors.New("own")
	for name, fail := range map[string]func(s *Session){
		"statement": func(s *Session) { s.Exec("INSERT INTO nowhere VALUES (1)") },
		"value":     func(s *Session) { s.Get("SELECT 'x'", nil, new(int64)) },
		"own":       func(s *Session) { s.Fail(own) },
		"in a loop": func(s *Session) {
			for range s.Rows("SELECT 1 UNION SELECT 2 UNION SELECT 3") {
				s.Fail(own)
			}
		},
		"no row": func(s *Session) { One(s, func(n *int64) []any { return []any{n} }, "SELECT id FROM item WHERE id < 0") },
	} {
		told := 0
		err := r.Write(t.Context(), name, func(s *Session) {
			s.AfterCommit(func() { told++ })
			s.WhenReadable(func() { told++ })
			r.add(s)
			fail(s)
			r.add(s)
			if rows := All(s, func(n *int64) []any { return []any{n} }, "SELECT id FROM item"); rows != nil || !s.Failed() {
				t.Errorf("%s: it went on: %d", name, rows)
			}
		})
		if err == nil || !strings.HasPrefix(err.Error(), name+": ") || told != 0 || r.items(t) != 1 {
			t.Errorf("%s: %v, told %d times, %d items", name, err, told, r.items(t))
		}
		for range 2 * readers { // each would keep a connection
			s := r.Read(t.Context(), name)
			if fail(s); s.Err() == nil {
				t.Errorf("%s: no error of a read", name)
			}
			for range r.Read(t.Context(), name).Rows("SELECT 1 UNION SELECT 2") {
				break
			}
		}
		if n := r.r.db.Stats().InUse; n != 0 {
			t.Errorf("%s: %d connections are still in use", name, n)
		}
	}
	if err := r.put(); err != nil || r.items(t) != 2 {
		t.Errorf("afterwards: %v, %d items", err, r.items(t))
	}
}
