package sqlite

import (
	"embed"
	"errors"
	"io/fs"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

// applicationID marks a file as ours: "rsyd".
const applicationID = 0x72737964

//go:embed migrations/*.sql
var migrations embed.FS

// migrationScripts are the schema's steps, oldest first. A released one is never edited: changes are new files.
func migrationScripts() ([]string, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	out := make([]string, len(names))
	for i, name := range names {
		b, err := migrations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out[i] = string(b)
	}
	return out, nil
}

func schema() (dbfile.Schema, error) {
	scripts, err := migrationScripts()
	return dbfile.Schema{Application: applicationID, Scripts: scripts, Explain: explain}, err
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
