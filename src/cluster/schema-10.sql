-- SPDX-License-Identifier: Apache-2.0
-- A step of a cluster's schema: what each node has used, for when it is silent. It only adds: members that know the steps before it alone go on.
SET search_path = cluster, pg_temp;

-- A node's own figures of a project's day, as a whole, not what has come since: saying them twice, late or again after a backup was set back counts nothing twice.
-- They outlive the node and the project: somebody may have to pay for them.
CREATE TABLE usage_days (
	project_id text COLLATE "C" CHECK (length(project_id) BETWEEN 1 AND 64),
	day int,
	node int,
	figures bigint[] NOT NULL CHECK (cardinality(figures) BETWEEN 1 AND 32),
	PRIMARY KEY (project_id, day, node)) WITH (fillfactor = 70);
CREATE INDEX usage_days_by_node ON usage_days (node, day);
CREATE TABLE usage_told (node int PRIMARY KEY, name text NOT NULL, at timestamptz NOT NULL) WITH (fillfactor = 50);

-- rows: [[project, day, [figures]]], of this node's own days. Figures never become smaller. Said without waiting for the disk: they are said again.
CREATE FUNCTION tell_usage(node int, secret text, epoch bigint, rows jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp SET synchronous_commit = off AS $$
BEGIN
	PERFORM prove(tell_usage.node, secret);
	IF NOT hold(tell_usage.node, epoch) THEN
		RETURN '{"result": "stale"}';
	END IF;
	INSERT INTO usage_days AS u SELECT r->>0, (r->>1)::int, tell_usage.node,
			ARRAY(SELECT greatest(0, least(v.value::bigint, 9000000000000000)) FROM jsonb_array_elements_text(r->2) WITH ORDINALITY v(value, i) ORDER BY v.i)
		FROM jsonb_array_elements(rows) r ORDER BY 1, 2
		ON CONFLICT ON CONSTRAINT usage_days_pkey DO UPDATE SET figures =
			ARRAY(SELECT greatest(x.a, x.b) FROM unnest(u.figures, excluded.figures) WITH ORDINALITY x(a, b, i) ORDER BY x.i);
	DELETE FROM usage_days u WHERE u.node = tell_usage.node AND u.day < (extract(epoch FROM now()) / 86400)::int - 750;
	INSERT INTO usage_told SELECT tell_usage.node, coalesce(n.name, n.address), clock_timestamp() FROM nodes n WHERE n.node = tell_usage.node
		ON CONFLICT ON CONSTRAINT usage_told_pkey DO UPDATE SET at = excluded.at;
	RETURN '{"result": "ok"}';
END $$;

-- Of all nodes but those that are named: {rows: [[project, day, [figures]]], has_more, told: [{node, name, as_of_us}]}, behind a project and a day. Without by_day
-- the days are added up, and day is 0. project_id NULL: all.
CREATE FUNCTION usage_of(node int, secret text, project_id text, but jsonb, from_day int, to_day int, by_day boolean, after_project text, after_day int) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	rows_ jsonb;
	n int;
BEGIN
	PERFORM prove(usage_of.node, secret);
	SELECT jsonb_agg(jsonb_build_array(t.project_id, t.day, t.figures) ORDER BY t.project_id, t.day), count(*) INTO rows_, n FROM (
		SELECT s.project_id, s.day, jsonb_agg(s.value ORDER BY s.i) AS figures FROM (
			SELECT u.project_id, CASE WHEN by_day THEN u.day ELSE 0 END AS day, v.i, least(sum(v.value), 9000000000000000)::bigint AS value
			FROM usage_days u, unnest(u.figures) WITH ORDINALITY v(value, i)
			WHERE (usage_of.project_id IS NULL OR u.project_id = usage_of.project_id) AND u.day BETWEEN from_day AND to_day AND NOT but @> to_jsonb(u.node)
			GROUP BY 1, 2, 3) s
		WHERE (s.project_id, s.day) > (after_project, after_day)
		GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 200) t;
	RETURN jsonb_build_object('result', 'ok', 'rows', coalesce(rows_, '[]'), 'has_more', n = 200,
		'told', (SELECT coalesce(jsonb_agg(jsonb_build_object('node', t.node, 'name', t.name, 'as_of_us', (extract(epoch FROM t.at) * 1000000)::bigint) ORDER BY t.node), '[]')
			FROM (SELECT * FROM usage_told x WHERE NOT but @> to_jsonb(x.node) ORDER BY x.at DESC LIMIT 64) t));
END $$;

UPDATE version SET number = 10;

-- Nobody may do what is not said here.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA cluster FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tell_usage, usage_of TO cloche_node;
