-- Usage and quotas (src/tenant). A figure is in three places that change in one transaction: the
-- sandbox's day, which is kept for a time, its project's and key's day, which is kept for good, and
-- the meter, which says up to which counter all of it goes. Days count from 1970, in UTC.

CREATE TABLE meters (
	sandbox_id TEXT PRIMARY KEY NOT NULL,
	project_id TEXT NOT NULL,
	key_id TEXT NOT NULL,
	boot_id TEXT NOT NULL,
	charged_to_us INTEGER NOT NULL,
	is_held INTEGER NOT NULL,
	memory_limit_bytes INTEGER NOT NULL,
	counted_cpu_ns INTEGER NOT NULL,
	memory_bytes INTEGER NOT NULL,
	disk_bytes INTEGER NOT NULL,
	running_ms INTEGER NOT NULL,
	cpu_ns INTEGER NOT NULL,
	memory_mib_ms INTEGER NOT NULL,
	memory_used_mib_ms INTEGER NOT NULL,
	disk_mib_ms INTEGER NOT NULL,
	network_in_bytes INTEGER NOT NULL,
	network_out_bytes INTEGER NOT NULL,
	execs INTEGER NOT NULL,
	calls INTEGER NOT NULL,
	creates INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_of_sandboxes (
	project_id TEXT NOT NULL,
	sandbox_id TEXT NOT NULL,
	day INTEGER NOT NULL,
	running_ms INTEGER NOT NULL,
	cpu_ns INTEGER NOT NULL,
	memory_mib_ms INTEGER NOT NULL,
	memory_used_mib_ms INTEGER NOT NULL,
	disk_mib_ms INTEGER NOT NULL,
	network_in_bytes INTEGER NOT NULL,
	network_out_bytes INTEGER NOT NULL,
	execs INTEGER NOT NULL,
	calls INTEGER NOT NULL,
	creates INTEGER NOT NULL,
	PRIMARY KEY (project_id, sandbox_id, day)
) STRICT, WITHOUT ROWID;

CREATE INDEX usage_by_day ON usage_of_sandboxes (day);

CREATE TABLE usage_of_keys (
	project_id TEXT NOT NULL,
	day INTEGER NOT NULL,
	key_id TEXT NOT NULL,
	running_ms INTEGER NOT NULL,
	cpu_ns INTEGER NOT NULL,
	memory_mib_ms INTEGER NOT NULL,
	memory_used_mib_ms INTEGER NOT NULL,
	disk_mib_ms INTEGER NOT NULL,
	network_in_bytes INTEGER NOT NULL,
	network_out_bytes INTEGER NOT NULL,
	execs INTEGER NOT NULL,
	calls INTEGER NOT NULL,
	creates INTEGER NOT NULL,
	PRIMARY KEY (project_id, day, key_id)
) STRICT, WITHOUT ROWID;

-- What an owner (a project or a key) was given; json says which of its limits are its own.
CREATE TABLE quotas (
	owner_id TEXT PRIMARY KEY NOT NULL,
	json TEXT NOT NULL
) STRICT, WITHOUT ROWID;
