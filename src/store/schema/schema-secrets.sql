-- Secrets (src/secret): values that a project's policies and environments refer to by name.
-- A value is sealed under a key of its own (wrapped), and that key under one of the master keys,
-- which key_id names. The master keys are in no database and no backup.

CREATE TABLE secrets (
	id TEXT PRIMARY KEY NOT NULL,
	project_id TEXT NOT NULL REFERENCES projects (id),
	name TEXT NOT NULL,
	hosts TEXT NOT NULL, -- patterns of names that it may be sent to, with blanks between; "": any
	version INTEGER NOT NULL,
	key_id TEXT NOT NULL,
	wrapped TEXT NOT NULL,
	sealed TEXT NOT NULL,
	created_us INTEGER NOT NULL,
	changed_us INTEGER NOT NULL,
	UNIQUE (project_id, name)
) STRICT, WITHOUT ROWID;
