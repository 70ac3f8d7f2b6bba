-- Idempotency keys: which object a request with such a key has made. digest is of the request.

CREATE TABLE once (
	project_id TEXT NOT NULL,
	key TEXT NOT NULL,
	object_id TEXT NOT NULL,
	digest BLOB NOT NULL CHECK (length(digest) = 32),
	created_us INTEGER NOT NULL,
	PRIMARY KEY (project_id, key)
) STRICT, WITHOUT ROWID;
