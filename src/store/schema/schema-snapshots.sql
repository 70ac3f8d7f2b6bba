-- Snapshots (src/sandbox/snapshot/snapshot.h). name '' = none; expires_us 0 = never. generation counts those
-- of one source. json holds what only src/sandbox/snapshot/snapshot.c looks into.

CREATE TABLE snapshots (
	id TEXT PRIMARY KEY NOT NULL,
	project_id TEXT NOT NULL,
	name TEXT NOT NULL,
	source_id TEXT NOT NULL,
	parent_id TEXT NOT NULL,
	generation INTEGER NOT NULL,
	created_us INTEGER NOT NULL,
	expires_us INTEGER NOT NULL,
	json TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX snapshots_by_name ON snapshots (project_id, name) WHERE name <> '';
