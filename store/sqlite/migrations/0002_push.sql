-- Push: subscriptions, the inbox of notifications, wants that only a notification knows of, and requests to the daemon.

ALTER TABLE want ADD COLUMN pushed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX want_pushed ON want (set_id, resource_id) WHERE pushed <> 0;

-- Few rows, changed one at a time. It outlives its Source as a tombstone (state 'gone').
CREATE TABLE subscription (
  id                  INTEGER PRIMARY KEY AUTOINCREMENT,
  source_id           INTEGER NOT NULL,
  set_id              INTEGER NOT NULL,
  kind                TEXT NOT NULL, -- store.ChannelKind
  topic               TEXT NOT NULL,
  hub                 TEXT NOT NULL,
  token               TEXT NOT NULL,
  secret              TEXT NOT NULL,
  state               TEXT NOT NULL, -- store.SubscriptionState
  replaces            INTEGER NOT NULL,
  asked               INTEGER NOT NULL,
  granted             INTEGER NOT NULL,
  requested           INTEGER,
  verified            INTEGER,
  renew               INTEGER,
  expires             INTEGER,
  rotated             INTEGER,
  next                INTEGER,
  attempts            INTEGER NOT NULL,
  profile             INTEGER NOT NULL,
  reason              TEXT NOT NULL,
  ended               INTEGER,
  last_delivery       INTEGER,
  delivered           INTEGER NOT NULL DEFAULT 0,
  duplicates          INTEGER NOT NULL DEFAULT 0,
  rejected_signature  INTEGER NOT NULL DEFAULT 0,
  rejected_too_large  INTEGER NOT NULL DEFAULT 0,
  rejected_malformed  INTEGER NOT NULL DEFAULT 0,
  push_misses         INTEGER NOT NULL DEFAULT 0,
  missed              INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX subscription_token ON subscription (token);
CREATE INDEX subscription_source ON subscription (source_id, id);
CREATE INDEX subscription_gone ON subscription (ended) WHERE state = 'gone';

CREATE TABLE inbox (
  id              INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of arrival, never given twice
  subscription_id INTEGER NOT NULL,
  source_id       INTEGER NOT NULL,
  set_id          INTEGER NOT NULL,
  kind            TEXT NOT NULL,
  received        INTEGER,
  signed          INTEGER NOT NULL,
  digest          BLOB NOT NULL,
  type            TEXT NOT NULL,
  v_from          INTEGER,
  v_until         INTEGER,
  verdict         TEXT NOT NULL,
  kept            INTEGER NOT NULL DEFAULT 0,
  body            BLOB NOT NULL
) STRICT;
CREATE INDEX inbox_source ON inbox (source_id, kept, id);

-- What waits in the inbox, the kept ones left out; one row, changed with each transaction that changes the inbox.
CREATE TABLE inbox_size (
  id         INTEGER PRIMARY KEY CHECK (id = 1),
  deliveries INTEGER NOT NULL,
  bytes      INTEGER NOT NULL
) STRICT;
INSERT INTO inbox_size (id, deliveries, bytes) VALUES (1, 0, 0);

-- Bodies that were delivered lately, to know a repeated one. n counts up within a set, so the oldest ones lie together.
CREATE TABLE mark (
  set_id INTEGER NOT NULL,
  n      INTEGER NOT NULL,
  kind   TEXT NOT NULL,
  digest BLOB NOT NULL, -- the first half of it
  at     INTEGER NOT NULL,
  PRIMARY KEY (set_id, n)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX mark_body ON mark (set_id, kind, digest);

CREATE TABLE request (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  source    TEXT NOT NULL,
  command   TEXT NOT NULL,
  args      BLOB,
  state     TEXT NOT NULL, -- store.RequestState
  created   INTEGER,
  beat      INTEGER,
  progress  BLOB,
  exit_code INTEGER NOT NULL DEFAULT 0,
  problem   TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX request_waiting ON request (id) WHERE state = 'waiting';

CREATE TABLE request_line (
  request_id INTEGER NOT NULL REFERENCES request (id) ON DELETE CASCADE,
  n          INTEGER NOT NULL,
  line       TEXT NOT NULL,
  PRIMARY KEY (request_id, n)
) STRICT, WITHOUT ROWID;
