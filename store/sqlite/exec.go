package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
)

// direct runs statements that return no rows past database/sql, on the driver's own connection. For each call that copies the
// arguments into a new list, looks up how the driver wants them checked and locks three times, which is of no use to one
// goroutine with a pinned connection: for a commit of 20 rows a statement it allocated 360 bytes a resource of a first catch-up.
type direct struct {
	stmts map[string]driver.StmtExecContext
	args  []driver.NamedValue // of the call that runs, used again by the next
}

func newDirect() direct { return direct{stmts: map[string]driver.StmtExecContext{}} }

// run prepares a statement, if it is its first time, and runs it.
func (d *direct) run(ctx context.Context, conn *sql.Conn, query string, args []any) (res driver.Result, err error) {
	err = conn.Raw(func(raw any) error {
		st, err := d.prepare(ctx, raw, query)
		if err != nil {
			return err
		}
		defer func() { clear(d.args) }() // or they would be kept
		if err := d.take(args); err != nil {
			return err
		}
		res, err = st.ExecContext(ctx, d.args)
		return err
	})
	return res, err
}

func (d *direct) prepare(ctx context.Context, raw any, query string) (driver.StmtExecContext, error) {
	if st := d.stmts[query]; st != nil {
		return st, nil
	}
	conn, ok := raw.(driver.ConnPrepareContext)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	prepared, err := conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	st, ok := prepared.(driver.StmtExecContext)
	if !ok {
		return nil, errors.Join(errors.ErrUnsupported, prepared.Close())
	}
	d.stmts[query] = st
	return st, nil
}

// take makes the arguments values of a driver, by the rules of database/sql; nearly all are that already.
func (d *direct) take(args []any) error {
	d.args = d.args[:0]
	for i, arg := range args {
		switch arg.(type) {
		case nil, int64, string, []byte:
		default:
			value, err := driver.DefaultParameterConverter.ConvertValue(arg)
			if err != nil {
				return fmt.Errorf("argument %d is a %T: %w", i+1, arg, err)
			}
			arg = value
		}
		d.args = append(d.args, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	return nil
}

// close ends the statements, before the connection that they are of.
func (d *direct) close(conn *sql.Conn) error {
	if conn == nil || len(d.stmts) == 0 {
		return nil
	}
	return conn.Raw(func(any) error {
		var errs []error
		for _, st := range d.stmts {
			if st, ok := st.(driver.Stmt); ok {
				errs = append(errs, st.Close())
			}
		}
		clear(d.stmts)
		return errors.Join(errs...)
	})
}
