-- What other faces of the daemon (src/compat) keep of their own: one JSON text each.

CREATE TABLE faces (
	id TEXT PRIMARY KEY NOT NULL,
	kind TEXT NOT NULL,
	created_us INTEGER NOT NULL,
	json TEXT NOT NULL
) STRICT, WITHOUT ROWID;
