-- Logins of browsers. hash is of the token in the cookie, which is kept nowhere; key_id '' is the one that stands for root.

CREATE TABLE logins (
	hash BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
	project_id TEXT NOT NULL,
	key_id TEXT NOT NULL,
	created_us INTEGER NOT NULL,
	expires_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
