-- The event log (src/event): entries chained by hash, and one row about the chain.
-- anchor_*: the last entry that was removed for its age or for room; head_*: the newest.

CREATE TABLE events (
	seq INTEGER PRIMARY KEY NOT NULL,
	at_us INTEGER NOT NULL,
	type TEXT NOT NULL,
	project_id TEXT NOT NULL,
	sandbox_id TEXT NOT NULL,
	exec_id TEXT NOT NULL,
	key_id TEXT NOT NULL,
	request_id TEXT NOT NULL,
	data TEXT NOT NULL,
	prev BLOB NOT NULL CHECK (length(prev) = 32),
	hash BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;

CREATE TABLE event_chain (
	id INTEGER PRIMARY KEY NOT NULL CHECK (id = 1),
	anchor_seq INTEGER NOT NULL,
	anchor_hash BLOB NOT NULL CHECK (length(anchor_hash) = 32),
	head_seq INTEGER NOT NULL,
	head_hash BLOB NOT NULL CHECK (length(head_hash) = 32),
	count INTEGER NOT NULL,
	bytes INTEGER NOT NULL,
	boot_id TEXT NOT NULL
) STRICT;
