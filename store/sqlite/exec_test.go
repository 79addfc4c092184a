package sqlite

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// TestDirect: what a statement that returns no rows is given means what it means to database/sql, and a connection that is given
// up leaves no statements behind.
func TestDirect(t *testing.T) {
	t.Parallel()
	type number int
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	write := func(fn func(context.Context, *writer) error) error { return f.s.write(t.Context(), "test", fn) }
	var got string
	err := write(func(ctx context.Context, w *writer) error {
		if _, err := w.exec(ctx, "CREATE TABLE given (a, b, c, d, e, f)"); err != nil {
			return err
		}
		const add = "INSERT INTO given VALUES (?, ?, ?, ?, ?, ?)"
		n, err := w.exec(ctx, add, number(7), true, nil, "", []byte{}, []byte("x"))
		if err != nil || n != 1 {
			t.Errorf("%d rows, %v", n, err)
		}
		for _, a := range w.execs.args[:cap(w.execs.args)] {
			if a.Value != nil {
				t.Errorf("%v is kept", a.Value)
			}
		}
		if _, err := w.exec(ctx, add, 1, 2, 3, 4, 5); err == nil || !strings.Contains(err.Error(), "missing argument") {
			t.Errorf("an argument too few: %v", err)
		}
		if _, err := w.exec(ctx, add, 1, 2, 3, 4, 5, struct{}{}); err == nil || !strings.Contains(err.Error(), "argument 6") {
			t.Errorf("an argument of no use: %v", err)
		}
		return w.get(ctx, `SELECT group_concat(typeof(column1)) FROM (SELECT a AS column1 FROM given UNION ALL SELECT b FROM given
			UNION ALL SELECT c FROM given UNION ALL SELECT d FROM given UNION ALL SELECT e FROM given UNION ALL SELECT f FROM given)`, nil, &got)
	})
	if want := "integer,integer,null,text,blob,blob"; err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_ = write(func(context.Context, *writer) error { panic("given up") })
	}()
	if n := len(f.s.w.execs.stmts); n != 0 {
		t.Errorf("%d statements of a connection that is gone", n)
	}
	if err := write(func(ctx context.Context, w *writer) error { _, err := w.exec(ctx, "DROP TABLE given"); return err }); err != nil {
		t.Error(err)
	}
}
