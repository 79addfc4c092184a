-- Subscribers of PubSubHubbub 0.3 are signed for, and asked again, in their own manner.

ALTER TABLE hub_subscription ADD COLUMN old INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hub_subscription ADD COLUMN verify_token TEXT NOT NULL DEFAULT '';
