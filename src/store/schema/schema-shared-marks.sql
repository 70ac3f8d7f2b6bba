-- Which state of each sealed record of its cluster this node has taken last (src/node/sealed_records.h), also of those that were removed: so that it takes no older
-- one, whatever the cluster's database says.

CREATE TABLE shared_marks (
	kind TEXT NOT NULL, -- 'secret', 'webhook'
	id TEXT NOT NULL,
	project_id TEXT NOT NULL,
	version INTEGER NOT NULL,
	changed_us INTEGER NOT NULL,
	is_gone INTEGER NOT NULL,
	PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;
