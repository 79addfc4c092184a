-- Whether the floor of a set is an estimate: its list gave no time of its own, or one that proves nothing. What is older than such a
-- floor is compared with what is known, where what is older than a proven one is over.
ALTER TABLE sets ADD COLUMN estimated INTEGER NOT NULL DEFAULT 0;
-- Whether that list had entries of which nobody can tell what they are about: it is read again until it has none.
ALTER TABLE sets ADD COLUMN flawed INTEGER NOT NULL DEFAULT 0;
