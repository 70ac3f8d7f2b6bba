-- People who log in at a provider. A key that stands for a person in a project says who it is, and so does each entry of what the person does: a JSON object
-- {issuer, subject, name, email}; '' = nobody.

ALTER TABLE keys ADD COLUMN person TEXT NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN person TEXT NOT NULL DEFAULT '';

-- hash is of the token, which is kept nowhere; kind: 1 = of a browser, 2 = of the command line; project_id: the one that was chosen; sid: of the session at
-- the provider, '' = not told; refresh: the sealed token that asks the provider again, '' = none; until_us: it never lasts longer.
CREATE TABLE person_sessions (
	hash BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
	person_id TEXT NOT NULL,
	kind INTEGER NOT NULL,
	project_id TEXT NOT NULL,
	sid TEXT NOT NULL,
	refresh TEXT NOT NULL,
	created_us INTEGER NOT NULL,
	expires_us INTEGER NOT NULL,
	until_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
