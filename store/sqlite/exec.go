package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
)

// driverStmts runs statements without rows directly on the driver's connection. database/sql copies
// the arguments, looks up how to check them and takes locks for each call, which one goroutine with
// a pinned connection does not need.
type driverStmts struct {
	stmts map[string]driver.StmtExecContext
	args  []driver.NamedValue // of the running call, reused by the next
}

func newDriverStmts() driverStmts { return driverStmts{stmts: map[string]driver.StmtExecContext{}} }

func (d *driverStmts) run(ctx context.Context, conn *sql.Conn, query string,
	args []any) (res driver.Result, err error) {
	err = conn.Raw(func(raw any) error {
		st, err := d.prepare(ctx, raw, query)
		if err != nil {
			return err
		}
		defer func() { clear(d.args) }() // otherwise they would be kept alive
		if err := d.take(args); err != nil {
			return err
		}
		res, err = st.ExecContext(ctx, d.args)
		return err
	})
	return res, err
}

func (d *driverStmts) prepare(ctx context.Context, raw any, query string) (driver.StmtExecContext, error) {
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

// take converts arguments to driver values by the rules of database/sql.
func (d *driverStmts) take(args []any) error {
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

func (d *driverStmts) close(conn *sql.Conn) error {
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
