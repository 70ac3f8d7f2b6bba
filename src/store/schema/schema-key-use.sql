-- When a key was last used, give or take some minutes; 0: never.

ALTER TABLE keys ADD COLUMN used_us INTEGER NOT NULL DEFAULT 0;
