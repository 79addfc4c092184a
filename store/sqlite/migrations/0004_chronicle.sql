-- The chronicle: what happened, added up by the minute, hour and day; the evidence for coverage; the life of subscriptions.

-- In the order of time, so that the points of all Sources at one instant, which are written together, lie together: a
-- minute of 500 Sources touches some twenty pages and not 1,500. One Source is read by a lookup for each instant.
CREATE TABLE series (
  width        INTEGER NOT NULL, -- store.Width, seconds
  at           INTEGER NOT NULL,
  source_id    INTEGER NOT NULL,
  changes      INTEGER NOT NULL,
  failed       INTEGER NOT NULL,
  bytes        INTEGER NOT NULL,
  pushes       INTEGER NOT NULL,
  latency      INTEGER NOT NULL,
  latency_most INTEGER NOT NULL,
  misses       INTEGER NOT NULL,
  PRIMARY KEY (width, at, source_id)
) STRICT, WITHOUT ROWID;

-- A span's id is set_id << 40 | n with n counting up, so a look at the ends tells how many there are.
CREATE TABLE span (
  id       INTEGER PRIMARY KEY,
  set_id   INTEGER NOT NULL,
  kind     TEXT NOT NULL, -- store.SpanKind
  v_from   INTEGER,       -- NULL: a baseline
  v_until  INTEGER NOT NULL,
  first    INTEGER,
  last     INTEGER,
  count    INTEGER NOT NULL,
  entries  INTEGER NOT NULL,
  document TEXT NOT NULL
) STRICT;
CREATE INDEX span_from ON span (set_id, kind, v_from, v_until);
CREATE INDEX span_until ON span (set_id, v_until, v_from);

-- Closed lists that were read before are never read again: what they prove is taken from what is remembered of them.
INSERT INTO span (id, set_id, kind, v_from, v_until, first, last, count, entries, document)
  SELECT (set_id << 40) + row_number() OVER (PARTITION BY set_id ORDER BY id), set_id, 'change-list', v_from,
    coalesce(v_until, max(last_entry - 1, v_from), v_from), read, read, 1, entries, url
  FROM document WHERE kind = 'changelist' AND complete = 1 AND v_from IS NOT NULL AND set_id <> 0;

-- An event's id is source_id << 40 | n, as above. Topic and hub are kept, for the subscription goes before them.
CREATE TABLE subscription_event (
  id              INTEGER PRIMARY KEY,
  subscription_id INTEGER NOT NULL,
  set_id          INTEGER NOT NULL,
  kind            TEXT NOT NULL, -- store.ChannelKind
  topic           TEXT NOT NULL,
  hub             TEXT NOT NULL,
  at              INTEGER,
  was             TEXT NOT NULL, -- store.SubscriptionState
  state           TEXT NOT NULL,
  lease           INTEGER NOT NULL,
  reason          TEXT NOT NULL
) STRICT;
