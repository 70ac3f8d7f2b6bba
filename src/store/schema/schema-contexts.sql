-- Contexts: the channel of the agent that each has its interpreter on, to be resumed by the next gateway.

CREATE TABLE contexts (
	id TEXT PRIMARY KEY NOT NULL,
	sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
	channel INTEGER NOT NULL,
	created_us INTEGER NOT NULL,
	json TEXT NOT NULL
) STRICT;

CREATE INDEX contexts_by_sandbox ON contexts (sandbox_id);
