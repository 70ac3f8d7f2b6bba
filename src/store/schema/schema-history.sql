-- History (src/history). A span is a stretch of 60 readings at one step, counted from 1970; a piece
-- is what one owner has of it. All pieces of a span lie together: they are written together, and
-- removed together. The owner '' is the project itself, and the project '' the host.

CREATE TABLE history_pieces (
	step INTEGER NOT NULL,
	span INTEGER NOT NULL,
	project_id TEXT NOT NULL,
	owner_id TEXT NOT NULL,
	data BLOB NOT NULL,
	PRIMARY KEY (step, span, project_id, owner_id)
) STRICT, WITHOUT ROWID;

-- When each sandbox ran. One that runs has an end that never comes.
CREATE TABLE history_runs (
	project_id TEXT NOT NULL,
	ended_us INTEGER NOT NULL,
	sandbox_id TEXT NOT NULL,
	began_us INTEGER NOT NULL,
	name TEXT NOT NULL,
	template TEXT NOT NULL,
	PRIMARY KEY (project_id, ended_us, sandbox_id)
) STRICT, WITHOUT ROWID;

-- What a project has of both tables, written together with them.
CREATE TABLE history_room (
	project_id TEXT PRIMARY KEY NOT NULL,
	bytes INTEGER NOT NULL,
	runs INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
