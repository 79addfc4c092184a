-- Times are microseconds since 1970 UTC, NULL for none. What SQL decides on is a column; the rest of a record is packed in a
-- BLOB (codec.go), which halves both the bytes and the time of a row.

CREATE TABLE source (
  id            INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice: lock files and resource ids are made from it
  name          TEXT UNIQUE,                       -- NULL: forgotten, its rows are being dropped
  url           TEXT NOT NULL,
  root_id       TEXT NOT NULL DEFAULT '',
  paused        INTEGER NOT NULL DEFAULT 0,
  epoch         INTEGER NOT NULL DEFAULT 0,
  holder        TEXT NOT NULL DEFAULT '',
  unclean       INTEGER NOT NULL DEFAULT 0,
  policy        TEXT NOT NULL DEFAULT '',
  created       INTEGER,
  next_resource INTEGER NOT NULL DEFAULT 1,
  next_event    INTEGER NOT NULL DEFAULT 1
) STRICT;

CREATE TABLE sets (
  id              INTEGER PRIMARY KEY AUTOINCREMENT,
  source_id       INTEGER NOT NULL REFERENCES source (id),
  capability_list TEXT NOT NULL,
  floor           INTEGER,
  generation      INTEGER NOT NULL DEFAULT 0,
  baselines       INTEGER NOT NULL DEFAULT 0,
  proven          TEXT NOT NULL DEFAULT '[]', -- JSON: [[from, until], …]
  joint           TEXT NOT NULL DEFAULT '[]',
  resources       INTEGER NOT NULL DEFAULT 0,
  bytes           INTEGER NOT NULL DEFAULT 0,
  gone            INTEGER NOT NULL DEFAULT 0,
  in_step         INTEGER NOT NULL DEFAULT 0,
  problem         TEXT NOT NULL DEFAULT '',
  last_pull       INTEGER,
  UNIQUE (source_id, capability_list)
) STRICT;

-- A resource's id is source_id << 40 | n with n counting up in the order of insertion, so the rows of a Source lie together
-- and an id range is a Source. Ids are never given twice. No foreign keys here: they would cost a lookup a row.
CREATE TABLE resource (
  id        INTEGER PRIMARY KEY,
  source_id INTEGER NOT NULL,
  uri       TEXT NOT NULL,
  key       TEXT NOT NULL,    -- '' owns no name
  name      TEXT,             -- the folded key where the file system folds case, NULL: key
  have      INTEGER NOT NULL, -- store.HaveState
  length    INTEGER NOT NULL, -- of the file on disk
  file      BLOB,             -- the rest of store.Have, NULL: zero
  action    INTEGER NOT NULL, -- store.Action
  due       INTEGER,
  failure   BLOB              -- the rest of store.Work, NULL: zero
) STRICT;
CREATE UNIQUE INDEX resource_uri ON resource (source_id, uri);
CREATE UNIQUE INDEX resource_name ON resource (source_id, coalesce(name, key)) WHERE key <> '';
CREATE INDEX resource_work ON resource (action, id, due) WHERE action <> 0;
CREATE INDEX resource_due ON resource (source_id, due) WHERE action <> 0;

CREATE TABLE want (
  set_id      INTEGER NOT NULL,
  resource_id INTEGER NOT NULL,
  state       INTEGER NOT NULL, -- store.WantState
  v_from      INTEGER,
  v_until     INTEGER,
  generation  INTEGER NOT NULL,
  held        INTEGER NOT NULL,
  refused     TEXT,             -- NULL: not refused
  said        BLOB NOT NULL,    -- the rest of store.Want
  PRIMARY KEY (set_id, resource_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX want_absent ON want (set_id, resource_id) WHERE state = 2;
CREATE INDEX want_held ON want (set_id, resource_id) WHERE held <> 0;
CREATE INDEX want_refused ON want (set_id, resource_id) WHERE refused IS NOT NULL;

CREATE TABLE folder (
  source_id INTEGER NOT NULL,
  name      TEXT NOT NULL,
  PRIMARY KEY (source_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE document (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  source_id     INTEGER NOT NULL,
  set_id        INTEGER NOT NULL,
  url           TEXT NOT NULL,
  kind          TEXT NOT NULL,
  etag          TEXT NOT NULL DEFAULT '',
  last_modified TEXT NOT NULL DEFAULT '',
  at            INTEGER,
  v_from        INTEGER,
  v_until       INTEGER,
  last_entry    INTEGER,
  entries       INTEGER NOT NULL DEFAULT 0,
  complete      INTEGER NOT NULL DEFAULT 0,
  read          INTEGER,
  body          BLOB,
  UNIQUE (source_id, url)
) STRICT;

CREATE TABLE trash (
  source_id INTEGER NOT NULL,
  id        TEXT NOT NULL,
  uri       TEXT NOT NULL,
  key       TEXT NOT NULL,
  sha256    BLOB NOT NULL,
  length    INTEGER NOT NULL,
  reason    TEXT NOT NULL,
  at        INTEGER,
  PRIMARY KEY (source_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX trash_uri ON trash (source_id, uri, id);

CREATE TABLE gap (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  set_id    INTEGER NOT NULL,
  v_from    INTEGER,
  v_until   INTEGER,
  state     TEXT NOT NULL,
  ended_yet INTEGER NOT NULL, -- the state is a final one
  closed_by TEXT NOT NULL,
  found     INTEGER,
  ended     INTEGER
) STRICT;
CREATE INDEX gap_set ON gap (set_id, ended_yet);

CREATE TABLE run (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  set_id    INTEGER NOT NULL,
  kind      TEXT NOT NULL,
  started   INTEGER,
  ended     INTEGER,
  fetched   INTEGER NOT NULL,
  deleted   INTEGER NOT NULL,
  unchanged INTEGER NOT NULL,
  failed    INTEGER NOT NULL,
  bytes     INTEGER NOT NULL,
  requests  INTEGER NOT NULL,
  problem   TEXT NOT NULL
) STRICT;
CREATE INDEX run_set ON run (set_id);

CREATE TABLE event (
  source_id INTEGER NOT NULL,
  uri       TEXT NOT NULL,
  id        INTEGER NOT NULL, -- counts up within the Source
  at        INTEGER,
  what      TEXT NOT NULL,
  v_from    INTEGER,
  v_until   INTEGER,
  ordinal   INTEGER NOT NULL,
  document  INTEGER NOT NULL,
  detail    TEXT NOT NULL,
  PRIMARY KEY (source_id, uri, id)
) STRICT, WITHOUT ROWID;

-- Where Tidy's walk over the events stands; one row.
CREATE TABLE tidy (
  id        INTEGER PRIMARY KEY CHECK (id = 1),
  source_id INTEGER NOT NULL,
  uri       TEXT NOT NULL
) STRICT;
INSERT INTO tidy (id, source_id, uri) VALUES (1, 0, '');
