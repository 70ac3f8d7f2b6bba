-- Volumes. Before, each was a row of faces, with one JSON text. notes is an object that its maker keeps with it, or NULL.

CREATE TABLE volumes (
	id TEXT PRIMARY KEY NOT NULL,
	project_id TEXT NOT NULL,
	key_id TEXT NOT NULL,
	name TEXT NOT NULL,
	bytes INTEGER NOT NULL,
	has_one_writer INTEGER NOT NULL,
	created_us INTEGER NOT NULL,
	notes TEXT
) STRICT, WITHOUT ROWID;

INSERT INTO volumes
SELECT id, json_extract(json, '$.project_id'), json_extract(json, '$.key_id'), json_extract(json, '$.name'), json_extract(json, '$.bytes'),
       json_extract(json, '$.has_one_writer'), created_us, json_extract(json, '$.notes')
FROM faces WHERE kind = 'volume';

DELETE FROM faces WHERE kind = 'volume';
