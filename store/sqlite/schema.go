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

// explain finds what callers check behind an error about the tables.
func explain(err error) error {
	switch {
	case errors.Is(err, column.ErrDamaged):
		return store.ErrCorrupt
	case dbfile.Repeats(err, "resource_name"):
		return store.ErrNameTaken
	}
	return nil
}

// schemaPush is the schema version that added subscriptions, the inbox, pushed wants and requests.
const schemaPush = 2

// schemaFeed added kept content, edits and the shares of the inbox.
const schemaFeed = 3

// schemaChronicle added the chronicle.
const schemaChronicle = 4

// lacks reports that the database is an older one, opened for reading, without what that version added. A missing
// table counts as empty, so that `status` works before the first run of a new program.
func (s *Store) lacks(version int64) bool { return s.db.Version() < version }
