-- Templates (src/sandbox/storage/template.h). project_id '' = shared by all. Several may have one image.

CREATE TABLE templates (
	id TEXT PRIMARY KEY NOT NULL,
	project_id TEXT NOT NULL,
	name TEXT NOT NULL,
	image TEXT NOT NULL,
	bytes INTEGER NOT NULL,
	created_us INTEGER NOT NULL,
	json TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX templates_by_name ON templates (project_id, name);
