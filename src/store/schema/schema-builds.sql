-- Builds of templates (src/build), and which image came out of a step that may be asked for again.

CREATE TABLE builds (
	id TEXT PRIMARY KEY NOT NULL,
	project_id TEXT NOT NULL,
	created_us INTEGER NOT NULL,
	json TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE build_cache (
	key TEXT PRIMARY KEY NOT NULL,
	image TEXT NOT NULL,
	bytes INTEGER NOT NULL,
	used_us INTEGER NOT NULL,
	json TEXT NOT NULL
) STRICT, WITHOUT ROWID;
