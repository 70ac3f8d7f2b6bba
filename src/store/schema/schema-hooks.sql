-- Webhooks (src/hook): where events are sent, and up to which entry that was done.
-- The secret signs what is sent. It is here sealed (src/hook/hook_secret.h), or as the name of one.

CREATE TABLE hooks (
	id TEXT PRIMARY KEY NOT NULL,
	project_id TEXT NOT NULL REFERENCES projects (id),
	url TEXT NOT NULL,
	types TEXT NOT NULL,
	secret TEXT NOT NULL,
	created_us INTEGER NOT NULL,
	cursor INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
