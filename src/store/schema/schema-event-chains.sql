-- A chain of entries for each project, and one for the host's own entries (project ''). Before, all entries were one chain.
-- place: the order of all entries, whatever their chain; seq: the number in the chain.
-- Entries of before keep their numbers and hashes, and event_chain says where their chain begins and ends. Each new chain goes on behind
-- the last number and hash of that one, so no number that a client knows comes again.

ALTER TABLE events RENAME COLUMN seq TO place;
ALTER TABLE events ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN client TEXT NOT NULL DEFAULT ''; -- where the request came from
ALTER TABLE events ADD COLUMN agent TEXT NOT NULL DEFAULT ''; -- what the client says it is
UPDATE events SET seq = place;

-- Where the entries of each chain are, and behind them, under the largest number there is, a row about the chain itself. The newest entry
-- and that row are mostly on one page, so an entry costs the disk no more than it did before there were chains.
CREATE TABLE event_chains (
	project_id TEXT NOT NULL,
	seq INTEGER NOT NULL,
	place INTEGER NOT NULL, -- of the newest entry, in the row about the chain
	anchor_seq INTEGER,
	anchor_hash BLOB CHECK (length(anchor_hash) = 32),
	head_seq INTEGER,
	head_hash BLOB CHECK (length(head_hash) = 32),
	count INTEGER,
	bytes INTEGER,
	anchor_place INTEGER,
	boot_id TEXT,
	PRIMARY KEY (project_id, seq)
) STRICT, WITHOUT ROWID;

INSERT INTO event_chains (project_id, seq, place) SELECT project_id, seq, place FROM events;
INSERT INTO event_chains
SELECT p.id, 9223372036854775807, c.head_seq, c.head_seq, c.head_hash, c.head_seq, c.head_hash, 0, 0, 0, c.boot_id
FROM event_chain c, (SELECT id FROM projects UNION SELECT project_id FROM events UNION SELECT '') p;
