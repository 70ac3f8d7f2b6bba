-- SPDX-License-Identifier: Apache-2.0
-- Step 3 of a cluster's schema, behind schema-2.sql: batches of the directory are numbered, a list is of chosen nodes, and a node sees how full some others are. It
-- only adds: members that know step 2 go on.
SET search_path = cluster, pg_temp;

-- The newest batch of a node, and the round that it belongs to: a round begins with all that the node has, and goes on with what changes.
ALTER TABLE told ADD COLUMN number bigint NOT NULL DEFAULT 0, ADD COLUMN round bigint NOT NULL DEFAULT 0, ADD COLUMN is_whole boolean NOT NULL DEFAULT false;
ALTER TABLE sandboxes ADD COLUMN round bigint NOT NULL DEFAULT 0;

-- A batch of what has changed of this node's sandboxes. A round's first batch has the round's own number, each other one the next: so a batch that was lost, here
-- or on its way, is found with the one behind it ('gap'), and the node begins another round. What it says no more is forgotten when the round is whole, not before:
-- nobody sees a half list. A row of another node stays that node's. Said without waiting for the disk: it can be said again.
CREATE FUNCTION tell_batch(node int, secret text, epoch bigint, round bigint, number bigint, rows jsonb, gone jsonb, is_whole boolean) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp SET synchronous_commit = off AS $$
DECLARE
	last told;
BEGIN
	PERFORM prove(tell_batch.node, secret);
	IF NOT hold(tell_batch.node, epoch) THEN
		RETURN '{"result": "stale"}';
	END IF;
	INSERT INTO told (node, at) VALUES (tell_batch.node, clock_timestamp()) ON CONFLICT DO NOTHING;
	SELECT * INTO last FROM told t WHERE t.node = tell_batch.node FOR UPDATE;
	IF number <> tell_batch.round AND (last.round <> tell_batch.round OR number NOT IN (last.number, last.number + 1)) THEN
		RETURN '{"result": "gap"}';
	END IF;
	DELETE FROM sandboxes s WHERE s.node = tell_batch.node AND s.sandbox_id IN (SELECT jsonb_array_elements_text(gone));
	INSERT INTO sandboxes (sandbox_id, project_id, node, created_us, row, round)
		SELECT r->>'id', r->>'project_id', tell_batch.node, (r->'row'->>'created_us')::bigint, r->'row', tell_batch.round FROM jsonb_array_elements(rows) r ORDER BY 1
		ON CONFLICT ON CONSTRAINT sandboxes_pkey DO UPDATE SET row = excluded.row, round = excluded.round WHERE sandboxes.node = excluded.node;
	IF is_whole THEN
		DELETE FROM sandboxes s WHERE s.node = tell_batch.node AND s.round <> tell_batch.round;
	END IF;
	UPDATE told t SET at = clock_timestamp(), number = tell_batch.number, round = tell_batch.round,
		is_whole = tell_batch.is_whole OR (last.is_whole AND last.round = tell_batch.round) WHERE t.node = tell_batch.node;
	RETURN '{"result": "ok"}';
END $$;

-- Sandboxes of some other nodes, newest first, behind a time and an id: {rows: [{node, row}], has_more, told: [{node, as_of_us}]}, as many as a message holds. Of a
-- lost node what it had is told as it ended.
CREATE FUNCTION list_of(node int, secret text, project_id text, nodes jsonb, before_us bigint, before_id text, most int, filter jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	of_nodes int[] := ARRAY(SELECT x::int FROM jsonb_array_elements_text(nodes) x LIMIT 20000);
	cap int := least(greatest(most, 1), 100);
	found_ jsonb;
	n int;
	n_all int;
BEGIN
	PERFORM prove(list_of.node, secret);
	SELECT jsonb_agg(jsonb_build_object('node', n.name, 'row', t.row) ORDER BY t.created_us DESC, t.sandbox_id DESC) FILTER (WHERE t.size <= 40000 AND t.place <= cap),
		count(*) FILTER (WHERE t.size <= 40000 AND t.place <= cap), count(*) INTO found_, n, n_all
		FROM (SELECT x.*, sum(octet_length(x.row::text) + 200) OVER w AS size, row_number() OVER w AS place
			FROM (SELECT * FROM sandboxes s WHERE s.project_id = list_of.project_id AND s.node = ANY (of_nodes) AND s.node <> list_of.node
				AND (s.created_us, s.sandbox_id) < (before_us, before_id)
				AND (filter->>'state' IS NULL OR s.row->>'state' = filter->>'state') AND (filter->>'group' IS NULL OR s.row->>'group' = filter->>'group')
				AND (filter->>'tag_name' IS NULL OR s.row->'tags'->>(filter->>'tag_name') = filter->>'tag_value')
				ORDER BY s.created_us DESC, s.sandbox_id DESC LIMIT cap + 1) x
			WINDOW w AS (ORDER BY x.created_us DESC, x.sandbox_id DESC)) t
		JOIN nodes n ON n.node = t.node;
	RETURN jsonb_build_object('rows', coalesce(found_, '[]'), 'has_more', n_all > n,
		'told', (SELECT coalesce(jsonb_agg(jsonb_build_object('node', n.name, 'as_of_us', (extract(epoch FROM w.at) * 1000000)::bigint)), '[]')
			FROM (SELECT * FROM told x WHERE x.node = ANY (of_nodes) ORDER BY x.node LIMIT 128) w JOIN nodes n ON n.node = w.node));
END $$;

-- Which node has a sandbox, of which the tag is another's: {node, is_lost}; node NULL: nobody, as far as is told, and is_lost says whether the tag's node is.
CREATE FUNCTION where_is(node int, secret text, id text, tagged int) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	has int := (SELECT s.node FROM sandboxes s WHERE s.sandbox_id = where_is.id);
BEGIN
	PERFORM prove(where_is.node, secret);
	RETURN jsonb_build_object('node', has, 'is_lost', coalesce((SELECT n.is_lost FROM nodes n WHERE n.node = coalesce(has, tagged)), false));
END $$;

-- Which sandbox an idempotency key has made, and where: {holder, node}, both NULL for none.
CREATE FUNCTION once_of(node int, secret text, project_id text, key text) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(once_of.node, secret);
	RETURN coalesce((SELECT jsonb_build_object('holder', o.sandbox_id, 'node', o.node) FROM once o WHERE o.project_id = once_of.project_id AND o.key = once_of.key),
		'{"holder": null, "node": null}');
END $$;

-- The figures of some other nodes that can be asked, drawn anew for each call: {nodes: [{node, load}]}. A thousand rows are not read for sixteen.
CREATE FUNCTION sample(node int, secret text) RETURNS jsonb LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	highest int := (SELECT max(b.node) FROM beats b);
	drawn int[];
BEGIN
	PERFORM prove(sample.node, secret);
	IF highest <= 64 THEN
		drawn := ARRAY(SELECT i FROM generate_series(1, highest) i ORDER BY random());
	ELSE
		drawn := ARRAY(SELECT 1 + floor(random() * highest)::int FROM generate_series(1, 64));
	END IF;
	RETURN (SELECT jsonb_build_object('nodes', coalesce(jsonb_agg(jsonb_build_object('node', t.node, 'load', t.load)), '[]')) FROM (
		SELECT b.node, b.figures->'load' AS load FROM beats b JOIN nodes n USING (node)
			WHERE b.node = ANY (drawn) AND b.node <> sample.node AND b.epoch > 0 AND NOT n.is_claimed AND NOT n.is_lost AND NOT n.is_cordoned
				AND jsonb_typeof(b.figures->'load') = 'object' AND octet_length((b.figures->'load')::text) <= 1000
			ORDER BY array_position(drawn, b.node) LIMIT 16) t);
END $$;

UPDATE version SET number = 3;

-- Nobody may do what is not said here.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA cluster FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tell_batch, list_of, where_is, once_of, sample TO cloche_node;
