-- SPDX-License-Identifier: Apache-2.0
-- A step of a cluster's schema: which node runs a sandbox that outlives its node (`on_node_loss: "restore"`). It only adds: members that know the steps before it
-- alone go on.
SET search_path = cluster, pg_temp;

-- A row a sandbox that has a durable generation: a snapshot of its files in the store of objects. sealed: what else it is, which only gateways can open. term: of
-- its owner; the next owner's is higher. node is no reference: the row of a node that was removed waits for another owner. taken_at: of the generation.
CREATE TABLE owned (
	sandbox_id text COLLATE "C" PRIMARY KEY CHECK (length(sandbox_id) BETWEEN 1 AND 64),
	project_id text COLLATE "C" NOT NULL CHECK (length(project_id) BETWEEN 1 AND 64),
	node int NOT NULL,
	term bigint NOT NULL DEFAULT 1 CHECK (term > 0),
	generation text COLLATE "C" NOT NULL CHECK (length(generation) BETWEEN 1 AND 64),
	taken_at timestamptz NOT NULL,
	sealed text NOT NULL CHECK (octet_length(sealed) <= 32768),
	first_node int NOT NULL, -- whose tag its id has: that node must say where it is
	from_node int,           -- that had it before; NULL: nobody
	lost_ms bigint,          -- between the generation and the last that was heard of that node
	gone_at timestamptz);    -- it was deleted: a late word about it does not bring it back
CREATE INDEX owned_by_node ON owned (node) WHERE gone_at IS NULL;
CREATE INDEX owned_moved ON owned (first_node) WHERE gone_at IS NULL AND node <> first_node; -- few
CREATE INDEX owned_from ON owned (from_node) WHERE gone_at IS NULL;
CREATE INDEX owned_by_project ON owned (project_id);
CREATE INDEX owned_gone ON owned (gone_at) WHERE gone_at IS NOT NULL;

-- Removed nodes that still owned something.
CREATE TABLE left_owners (node int PRIMARY KEY);
CREATE FUNCTION note_left_owner() RETURNS trigger LANGUAGE plpgsql SET search_path = cluster, pg_temp AS $$
BEGIN
	INSERT INTO left_owners SELECT old.node WHERE EXISTS (SELECT 1 FROM owned o WHERE o.node = old.node AND o.gone_at IS NULL) ON CONFLICT DO NOTHING;
	RETURN NULL;
END $$;
CREATE TRIGGER left_owner AFTER DELETE ON nodes FOR EACH ROW EXECUTE FUNCTION note_left_owner();

CREATE FUNCTION forget_owned() RETURNS trigger LANGUAGE plpgsql SET search_path = cluster, pg_temp AS $$
BEGIN
	DELETE FROM owned o WHERE o.project_id = new.id;
	RETURN NULL;
END $$;
CREATE TRIGGER forget_owned AFTER UPDATE OF is_gone ON records FOR EACH ROW WHEN (new.kind = 'project' AND new.is_gone) EXECUTE FUNCTION forget_owned();

-- The newest durable generation of a sandbox that this node runs; with the first one the node owns it. age_ms: how long ago its files were as they are there.
-- {result, term}: 'ok'; 'moved' {node}: it is another's, or this node has it again in another term; 'gone': it was deleted; 'no_snapshot': the generation is no
-- durable snapshot of it; 'no_project'; 'full'; 'stale'.
CREATE FUNCTION own(node int, secret text, epoch bigint, sandbox_id text, project_id text, term bigint, generation text, age_ms bigint, sealed text) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	old owned;
BEGIN
	PERFORM prove(own.node, secret);
	IF NOT hold(own.node, epoch) THEN
		RETURN '{"result": "stale"}';
	END IF;
	PERFORM 1 FROM records r WHERE r.kind = 'project' AND r.id = own.project_id AND NOT r.is_gone FOR KEY SHARE;
	IF NOT FOUND THEN
		RETURN '{"result": "no_project"}';
	END IF;
	SELECT * INTO old FROM owned o WHERE o.sandbox_id = own.sandbox_id FOR UPDATE;
	IF FOUND THEN
		IF old.gone_at IS NOT NULL THEN
			RETURN '{"result": "gone"}';
		ELSIF old.node <> own.node OR old.project_id <> own.project_id OR (own.term > 0 AND old.term <> own.term) THEN
			RETURN jsonb_build_object('result', 'moved', 'node', old.node, 'term', old.term);
		END IF;
	ELSIF (SELECT count(*) FROM (SELECT 1 FROM owned o WHERE o.project_id = own.project_id AND o.gone_at IS NULL LIMIT 20000) x) >= 20000 THEN
		RETURN '{"result": "full"}';
	END IF;
	PERFORM 1 FROM snapshots s WHERE s.id = own.generation AND s.project_id = own.project_id AND s.source_id = own.sandbox_id AND s.gone_at IS NULL;
	IF NOT FOUND THEN
		RETURN '{"result": "no_snapshot"}';
	END IF;
	INSERT INTO owned AS o (sandbox_id, project_id, node, term, generation, taken_at, sealed, first_node)
		VALUES (own.sandbox_id, own.project_id, own.node, greatest(own.term, 1), own.generation,
			clock_timestamp() - make_interval(secs => least(greatest(age_ms, 0), 31536000000)::float8 / 1000), own.sealed, own.node)
		ON CONFLICT ON CONSTRAINT owned_pkey DO UPDATE SET generation = excluded.generation, taken_at = excluded.taken_at, sealed = excluded.sealed
			WHERE o.node = excluded.node AND o.gone_at IS NULL
		RETURNING o.term INTO old.term;
	IF old.term IS NULL THEN -- another has said it at the same time
		RETURN '{"result": "stale"}';
	END IF;
	RETURN jsonb_build_object('result', 'ok', 'term', old.term);
END $$;

-- It is deleted. Said again it is 'ok' again. {result}: 'ok'; 'moved' {node}; 'stale'.
CREATE FUNCTION disown(node int, secret text, epoch bigint, sandbox_id text, project_id text) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	old owned;
BEGIN
	PERFORM prove(disown.node, secret);
	IF NOT hold(disown.node, epoch) THEN
		RETURN '{"result": "stale"}';
	END IF;
	SELECT * INTO old FROM owned o WHERE o.sandbox_id = disown.sandbox_id FOR UPDATE;
	IF FOUND AND old.gone_at IS NULL AND (old.node <> disown.node OR old.project_id <> disown.project_id) THEN
		RETURN jsonb_build_object('result', 'moved', 'node', old.node);
	ELSIF FOUND AND old.gone_at IS NULL THEN
		UPDATE snapshots s SET gone_at = clock_timestamp(), record = '{}' WHERE s.id = old.generation AND s.source_id = old.sandbox_id AND s.gone_at IS NULL;
		UPDATE owned o SET gone_at = clock_timestamp(), sealed = '' WHERE o.sandbox_id = old.sandbox_id;
	END IF;
	DELETE FROM owned o WHERE o.gone_at < clock_timestamp() - interval '1 day';
	RETURN '{"result": "ok"}';
END $$;

-- Some of what the node owns, behind an id: {rows: [{id, term, generation}]}; fewer than 400: that was the last.
CREATE FUNCTION owned_rows(node int, secret text, after text) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(owned_rows.node, secret);
	RETURN (SELECT jsonb_build_object('rows', coalesce(jsonb_agg(jsonb_build_object('id', t.sandbox_id, 'term', t.term, 'generation', t.generation) ORDER BY t.sandbox_id), '[]'))
		FROM (SELECT * FROM owned o WHERE o.node = owned_rows.node AND o.gone_at IS NULL AND o.sandbox_id > after ORDER BY o.sandbox_id LIMIT 400) t);
END $$;

-- One of those, as a whole: {row}, or null.
CREATE FUNCTION owned_row(node int, secret text, sandbox_id text) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(owned_row.node, secret);
	RETURN jsonb_build_object('row', (SELECT jsonb_build_object('project_id', o.project_id, 'term', o.term, 'generation', o.generation, 'sealed', o.sealed, 'lost_ms', o.lost_ms,
		'from', n.name) FROM owned o LEFT JOIN nodes n ON n.node = o.from_node
		WHERE o.sandbox_id = owned_row.sandbox_id AND o.node = owned_row.node AND o.gone_at IS NULL));
END $$;

-- Who has a sandbox: {node, term, is_gone}; node null: nothing is known of it.
CREATE FUNCTION owner_of(node int, secret text, sandbox_id text) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(owner_of.node, secret);
	RETURN coalesce((SELECT jsonb_build_object('node', o.node, 'term', o.term, 'is_gone', o.gone_at IS NOT NULL) FROM owned o WHERE o.sandbox_id = owner_of.sandbox_id),
		'{"node": null, "term": 0, "is_gone": false}');
END $$;

-- Where sandboxes are whose ids have this node's tags or those of a removed one, or which it had, and which are not here: {rows: [{id, node}]} behind an id, 400 at most.
CREATE FUNCTION moved_rows(node int, secret text, after text) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(moved_rows.node, secret);
	RETURN (SELECT jsonb_build_object('rows', coalesce(jsonb_agg(jsonb_build_object('id', t.sandbox_id, 'node', t.node) ORDER BY t.sandbox_id), '[]'))
		FROM (SELECT * FROM owned o WHERE (o.first_node = moved_rows.node OR o.from_node = moved_rows.node OR (o.node <> o.first_node AND NOT EXISTS (SELECT 1 FROM nodes x WHERE x.node = o.first_node)))
			AND o.node <> moved_rows.node AND o.gone_at IS NULL AND o.sandbox_id > after ORDER BY o.sandbox_id LIMIT 400) t);
END $$;

-- Takes sandboxes of nodes that have lost their epoch and have not joined again, or were removed: {result, n}: 'ok'; 'stale'. Names, idempotency keys and the
-- directory's rows move with them. A join of such a node comes before this or behind it.
CREATE FUNCTION take_over(node int, secret text, epoch bigint, most bigint) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	dead int;
	seen timestamptz;
	ids text[];
	n int := 0;
BEGIN
	PERFORM prove(take_over.node, secret);
	IF NOT hold(take_over.node, epoch) THEN
		RETURN '{"result": "stale"}';
	END IF;
	FOR dead IN SELECT d.node FROM (SELECT x.node FROM nodes x WHERE x.is_claimed OR x.is_lost UNION SELECT l.node FROM left_owners l) d
			WHERE d.node <> take_over.node AND EXISTS (SELECT 1 FROM owned o WHERE o.node = d.node AND o.gone_at IS NULL) ORDER BY 1 LOOP
		SELECT b.seen_at INTO seen FROM beats b WHERE b.node = dead FOR KEY SHARE;
		PERFORM 1 FROM nodes x WHERE x.node = dead AND NOT x.is_claimed AND NOT x.is_lost;
		CONTINUE WHEN FOUND; -- it is back
		WITH chosen AS (SELECT o.sandbox_id FROM owned o WHERE o.node = dead AND o.gone_at IS NULL ORDER BY o.sandbox_id LIMIT greatest(least(most, 100) - n, 0) FOR UPDATE SKIP LOCKED),
			taken AS (UPDATE owned o SET node = take_over.node, term = o.term + 1, from_node = dead,
				lost_ms = greatest((extract(epoch FROM coalesce(seen, clock_timestamp()) - o.taken_at) * 1000)::bigint, 0)
				FROM chosen c WHERE o.sandbox_id = c.sandbox_id RETURNING o.sandbox_id)
			SELECT coalesce(array_agg(t.sandbox_id), '{}') INTO ids FROM taken t;
		UPDATE names x SET node = take_over.node WHERE x.node = dead AND x.sandbox_id = ANY (ids);
		UPDATE once x SET node = take_over.node WHERE x.node = dead AND x.sandbox_id = ANY (ids);
		UPDATE sandboxes s SET node = take_over.node WHERE s.node = dead AND s.sandbox_id = ANY (ids);
		n := n + cardinality(ids);
		EXIT WHEN n >= least(most, 100);
	END LOOP;
	DELETE FROM left_owners l WHERE NOT EXISTS (SELECT 1 FROM owned o WHERE o.node = l.node AND o.gone_at IS NULL);
	RETURN jsonb_build_object('result', 'ok', 'n', n);
END $$;

UPDATE version SET number = 11;

-- Nobody may do what is not said here.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA cluster FROM PUBLIC;
GRANT EXECUTE ON FUNCTION own, disown, owned_rows, owned_row, owner_of, moved_rows, take_over TO cloche_node;
