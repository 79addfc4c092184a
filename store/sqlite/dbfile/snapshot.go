package dbfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	driver "modernc.org/sqlite"
)

const snapshotPages = 4096

type backuper interface {
	NewBackup(dst string) (*driver.Backup, error)
}

// CopyTo copies the database, as of one instant, into the new file to (mode 0600), beside any
// writer. The copy is not synced.
func (f *File) CopyTo(ctx context.Context, to string) error {
	to, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	copied, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("copy the state database: %w", err)
	}
	if err := copied.Close(); err != nil {
		return err
	}
	if err := f.copyPages(ctx, to); err != nil {
		return errors.Join(f.Fail("copy the state database", err), os.Remove(to))
	}
	return nil
}

// copyPages copies all pages in one read transaction, so that no writer shows up half.
func (f *File) copyPages(ctx context.Context, to string) error {
	conn, err := f.r.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	defer func() { _, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") }()
	var n int64
	// It takes the read lock.
	if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&n); err != nil {
		return err
	}
	return conn.Raw(func(c any) error {
		source, ok := c.(backuper)
		if !ok {
			return errors.New("this driver cannot copy databases")
		}
		backup, err := source.NewBackup(dsn(to, "_pragma=synchronous(0)", "_pragma=journal_mode(OFF)"))
		if err != nil {
			return err
		}
		for more := true; more && err == nil; {
			if err = ctx.Err(); err == nil {
				more, err = backup.Step(snapshotPages)
			}
		}
		return errors.Join(err, backup.Finish())
	})
}
