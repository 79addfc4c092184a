-- Feeds: bytes that came with a document, until they are in the mirror, and the edits of records. What a want tells of an
-- inline resource is in its `said` (codec.go).

CREATE TABLE content (
  resource_id INTEGER PRIMARY KEY,
  body        BLOB NOT NULL
) STRICT;

-- A record has few edits, so those of one are read by this index and put in order afterwards.
CREATE TABLE edit (
  id        INTEGER PRIMARY KEY,
  source_id INTEGER NOT NULL,
  uri       TEXT NOT NULL,
  digest    BLOB NOT NULL,
  observed  INTEGER,
  author    TEXT NOT NULL,
  received  INTEGER,
  evidence  TEXT NOT NULL,
  body      BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX edit_digest ON edit (source_id, uri, digest);

-- What waits in the inbox of each Source, the kept ones left out; changed with each transaction that changes the inbox.
CREATE TABLE inbox_share (
  source_id  INTEGER PRIMARY KEY,
  deliveries INTEGER NOT NULL,
  bytes      INTEGER NOT NULL
) STRICT;
INSERT INTO inbox_share (source_id, deliveries, bytes)
  SELECT source_id, count(*), sum(length(body)) FROM inbox WHERE kept = 0 GROUP BY source_id;
DROP TABLE inbox_size;
