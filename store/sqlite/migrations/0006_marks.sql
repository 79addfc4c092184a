-- Bodies that were delivered lately, to know a repeated one: a row for each group of deliveries. They are numbered; id is the
-- number of the last one in the row, at when the newest of them came. What was delivered before this step counts as new once more.
DROP TABLE mark;
CREATE TABLE mark (
  id     INTEGER PRIMARY KEY,
  at     INTEGER NOT NULL,
  packed BLOB NOT NULL
) STRICT;
