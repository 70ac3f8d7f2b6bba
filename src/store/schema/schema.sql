-- Version 1. What is live is kept in memory; these rows are what a restart comes back to.
-- Times are microseconds since 1970; json holds what only the module that wrote it looks into.

CREATE TABLE projects (
	id TEXT PRIMARY KEY NOT NULL,
	name TEXT NOT NULL UNIQUE,
	created_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
	id TEXT PRIMARY KEY NOT NULL,
	project_id TEXT NOT NULL REFERENCES projects (id),
	name TEXT NOT NULL,
	hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
	scope INTEGER NOT NULL,
	created_us INTEGER NOT NULL,
	revoked_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sandboxes (
	id TEXT PRIMARY KEY NOT NULL,
	project_id TEXT NOT NULL,
	name TEXT NOT NULL,
	state INTEGER NOT NULL,
	created_us INTEGER NOT NULL,
	ended_us INTEGER NOT NULL,
	json TEXT NOT NULL
) STRICT;

CREATE TABLE execs (
	id TEXT PRIMARY KEY NOT NULL,
	sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
	channel INTEGER NOT NULL,
	state INTEGER NOT NULL,
	created_us INTEGER NOT NULL,
	json TEXT NOT NULL
) STRICT;

CREATE INDEX execs_by_sandbox ON execs (sandbox_id);
