-- Work that never failed is due at once, so only what failed needs to be found by its time. A first sync, which has all of
-- its resources pass through these indexes, then pays for a small one instead of two.
DROP INDEX resource_work;
DROP INDEX resource_due;
CREATE INDEX resource_work ON resource (action, id) WHERE action <> 0 AND failure IS NULL;
CREATE INDEX resource_failed ON resource (action, id, due) WHERE action <> 0 AND failure IS NOT NULL;
CREATE INDEX resource_due ON resource (source_id, due) WHERE action <> 0 AND failure IS NOT NULL;
