-- Where audit entries are sent (src/audit), and how far that has come. sink: the place by its URL.
-- chain: of the event log, or '' where all entries are sent in the order of their places.
-- seq: sent up to here. upto: of the piece that is being sent, 0 = none; sealed_us: when that was
-- sealed. So a piece that is sent again is the same.
-- begin_*: the point behind which the sending began.

CREATE TABLE audit_places (
	sink TEXT NOT NULL,
	chain TEXT NOT NULL,
	seq INTEGER NOT NULL,
	upto INTEGER NOT NULL,
	sealed_us INTEGER NOT NULL,
	begin_seq INTEGER NOT NULL,
	begin_hash TEXT NOT NULL,
	PRIMARY KEY (sink, chain)
) STRICT, WITHOUT ROWID;
