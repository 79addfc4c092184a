// Package sqlite knows how the records of a Destination are kept in one SQLite file. It refuses to know what they
// mean: no rule about versions, coverage or files is here, only the contracts of package store.
package sqlite

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"strings"
	"sync"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

// Options configure the opening of a database. The zero value is for writing.
type Options struct {
	// ReadOnly opens an existing database for reading. If no other process has it open, nothing on disk is touched or
	// created; if one does (or was killed), its latest commits are read. Calls that would write fail with
	// store.ErrReadOnly. For long work beside a process that may start meanwhile use Snapshot.
	ReadOnly bool
	// Log receives failures of maintenance; nil discards.
	Log *slog.Logger

	sync func(log *os.File) error // replaced in tests of failing disks
}

// Store is a store.Store on one file.
type Store struct {
	db     *dbfile.File
	log    *slog.Logger
	limits limits

	recent recentBodies

	mu     sync.Mutex
	claims map[int64]*claim // granted by this Store and not released, by Source

	// searchAbove has the number of documents of a Source above which unused ones are searched again.
	searchAbove sync.Map
}

var _ store.Store = (*Store)(nil)

// limits bound how much is kept, or done at once. Tests lower them.
type limits struct {
	marks  int // keepMarks
	page   int // findPage
	forget int // forgetSlice
}

// Version is that of SQLite, for people.
func Version() string { return dbfile.Library() }

// MakeFolder makes the folder of a database, durably. Open calls it; a caller that writes there before needs it too.
func MakeFolder(path string) error { return dbfile.MakeFolder(path) }

// Open opens the state database at path, created if it is missing (mode 0600, its folder 0700) and
// brought to the newest schema. Its errors are those of dbfile.Open.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	schema, err := schema()
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	db, err := dbfile.Open(ctx, path, schema, dbfile.Options{
		ReadOnly: o.ReadOnly, Log: o.Log, Sync: o.sync,
	})
	if err != nil {
		return nil, err
	}
	return &Store{
		db: db, log: o.Log, claims: map[int64]*claim{},
		limits: limits{keepMarks, findPage, forgetSlice}, recent: recentBodies{max: keepMarks},
	}, nil
}

// Close releases all claims and closes the database. After the last process closed it, everything is in the one file.
func (s *Store) Close() error {
	s.mu.Lock()
	claims := s.claims
	s.claims = map[int64]*claim{}
	s.mu.Unlock()
	errs := []error{s.db.Close()}
	for _, c := range claims {
		errs = append(errs, c.unlock())
	}
	return errors.Join(errs...)
}

// Check implements store.Store.
func (s *Store) Check(ctx context.Context) error { return s.db.Check(ctx) }

// Snapshot copies the database at from, as of one instant, into the new file to (mode 0600), whether or not a process
// is writing it; without one, nothing is touched or created beside from. It fails as Open with ReadOnly does, and if
// to exists. The copy is not synced to disk: it is meant to be thrown away.
func Snapshot(ctx context.Context, from, to string) error {
	src, err := Open(ctx, from, Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer src.Close() // nothing was written through it
	return src.db.CopyTo(ctx, to)
}

// rowsAtOnce is how many rows one statement writes at most; more are no faster.
const rowsAtOnce = 32

// batches cuts a list for statements of several rows, by halves at its end, so that few statements make up all lengths.
func batches[T any](list []T) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for size := rowsAtOnce; len(list) > 0; list = list[size:] {
			for size > len(list) {
				size /= 2
			}
			if !yield(list[:size]) {
				return
			}
		}
	}
}

// writeRows adds a row for each of a list, and returns the id of the last one. args appends its values, in the order of
// the columns.
func writeRows[T any](tx *dbfile.Session, into, columns, tail string, list []T, args func([]any, T) []any) (id int64) {
	var values []any
	for part := range batches(list) {
		values = values[:0]
		for _, v := range part {
			values = args(values, v)
		}
		id = tx.Insert("INSERT "+into+" ("+columns+") VALUES "+rowsOf(parametersFor(columns), len(part))+tail,
			values...)
	}
	return id
}

// rowsOf is a list of n rows of parameters.
func rowsOf(row string, n int) string { return strings.TrimSuffix(strings.Repeat(row+",", n), ",") }

// insertInto is a statement that adds a row.
func insertInto(table, columns string) string {
	return "INSERT INTO " + table + " (" + columns + ") VALUES " + parametersFor(columns)
}

// update is a statement that sets columns; its condition follows.
func update(table, columns string) string {
	return "UPDATE " + table + " SET (" + columns + ") = " + parametersFor(columns) + " WHERE "
}

func parametersFor(columns string) string {
	return "(" + placeholders(1+strings.Count(columns, ",")) + ")"
}

func placeholders(n int) string { return rowsOf("?", n) }

func idField(id *int64) []any { return []any{id} }

// applicationID marks a file as ours: "rsyd".
const applicationID = 0x72737964

//go:embed migrations/*.sql
var migrations embed.FS

// schema has the steps oldest first. A released one is never edited: changes are new files.
func schema() (dbfile.Schema, error) {
	s := dbfile.Schema{Application: applicationID, Explain: explain}
	names, err := fs.Glob(migrations, "migrations/*.sql") // sorted
	for _, name := range names {
		step, readErr := migrations.ReadFile(name)
		s.Scripts, err = append(s.Scripts, string(step)), errors.Join(err, readErr)
	}
	return s, err
}

var errTokenTaken = errors.New("its callback token is another subscription's")

// explain finds what callers check behind an error about the tables.
func explain(err error) error {
	switch {
	case errors.Is(err, column.ErrDamaged):
		return store.ErrCorrupt
	case dbfile.Repeats(err, "resource_name"):
		return store.ErrNameTaken
	case dbfile.Repeats(err, "subscription.token"):
		return errTokenTaken
	}
	return nil
}

// schemaFeed is the schema version that added the shares of the inbox.
const schemaFeed = 3
