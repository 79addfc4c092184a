-- The companion hub's own database. Times are microseconds since 1970 UTC, NULL for none.

CREATE TABLE hub_topic (
  id            INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice: a late message must not reach another topic
  url           TEXT NOT NULL UNIQUE,
  last          INTEGER NOT NULL DEFAULT 0,
  floor         INTEGER NOT NULL DEFAULT 0,
  bytes         INTEGER NOT NULL DEFAULT 0,        -- of the bodies that are kept
  etag          TEXT NOT NULL DEFAULT '',
  last_modified TEXT NOT NULL DEFAULT '',
  digest        BLOB,
  pinged        INTEGER
) STRICT;

CREATE TABLE hub_subscription (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  topic_id  INTEGER NOT NULL REFERENCES hub_topic (id),
  callback  TEXT NOT NULL,
  secret    TEXT NOT NULL,
  verified  INTEGER,
  expires   INTEGER,
  cursor    INTEGER NOT NULL,
  attempts  INTEGER NOT NULL DEFAULT 0,
  next      INTEGER,
  delivered INTEGER NOT NULL DEFAULT 0,
  dropped   INTEGER NOT NULL DEFAULT 0,
  UNIQUE (topic_id, callback)
) STRICT;
CREATE INDEX hub_slowest ON hub_subscription (topic_id, cursor);

CREATE TABLE hub_notification (
  id       INTEGER PRIMARY KEY,
  topic_id INTEGER NOT NULL,
  number   INTEGER NOT NULL,
  received INTEGER,
  type     TEXT NOT NULL,
  link     TEXT NOT NULL,
  digest   BLOB NOT NULL,
  body     BLOB NOT NULL,
  UNIQUE (topic_id, number)
) STRICT;
