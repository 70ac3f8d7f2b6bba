-- Keys that sign the tokens of sandboxes (src/identity). The private half is sealed under a master
-- key (src/secret/sealed_text.h); the public one is here as it is told, so that tokens verify
-- though the master key is lost.

CREATE TABLE identity_keys (
	id TEXT PRIMARY KEY NOT NULL, -- thumbprint of the public half
	sealed TEXT NOT NULL,
	modulus TEXT NOT NULL, -- base64url
	created_us INTEGER NOT NULL,
	active_us INTEGER NOT NULL, -- since when it signs; 0: not yet
	retired_us INTEGER NOT NULL -- since when it no longer signs; 0: it does, or will
) STRICT, WITHOUT ROWID;
