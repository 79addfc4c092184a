// Package hubdb keeps what the companion hub must not forget in one SQLite file. It refuses to know what the hub does.
package hubdb

import (
	"context"
	_ "embed"
	"log/slog"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/store/sqlite/dbfile"
)

const application = 0x72736862

//go:embed migrations/0001_init.sql
var initial string

//go:embed migrations/0002_dialect.sql
var dialect string

// DB is a hubstate.State on one file of its own.
type DB struct{ f *dbfile.File }

var _ hubstate.State = (*DB)(nil)

// Open opens a hub's database; dbfile.Open says how. A nil log discards.
func Open(ctx context.Context, path string, log *slog.Logger) (*DB, error) {
	f, err := dbfile.Open(ctx, path, schema(initial, dialect), dbfile.Options{Alone: true, Log: log})
	if err != nil {
		return nil, err
	}
	return &DB{f}, nil
}

// Close closes the database and lets another hub have it.
func (d *DB) Close() error { return d.f.Close() }

func schema(scripts ...string) dbfile.Schema {
	return dbfile.Schema{Owner: "hub", Application: application, Scripts: scripts}
}
