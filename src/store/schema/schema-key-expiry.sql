-- Keys that end by themselves; 0: never.

ALTER TABLE keys ADD COLUMN expires_us INTEGER NOT NULL DEFAULT 0;
