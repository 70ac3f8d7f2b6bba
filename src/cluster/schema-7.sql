-- SPDX-License-Identifier: Apache-2.0
-- Step 7 of a cluster's schema, behind schema-6.sql: snapshots that lie in the store of objects. It only adds: members that know the steps before it alone go on.
SET search_path = cluster, pg_temp;

-- A row says that all objects of the snapshot are in the store. record: which ones, with brokers' seals; nothing of it is secret. node: which made it, and has it
-- perhaps no more. The row outlives its node, and goes with its project.
CREATE TABLE snapshots (
	id text COLLATE "C" PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 64),
	project_id text COLLATE "C" NOT NULL CHECK (length(project_id) BETWEEN 1 AND 64),
	source_id text COLLATE "C" NOT NULL CHECK (length(source_id) BETWEEN 1 AND 64),
	node int NOT NULL,
	expires_us bigint NOT NULL DEFAULT 0, -- by the clocks of nodes; 0: never
	record jsonb NOT NULL CHECK (octet_length(record::text) <= 16384),
	gone_at timestamptz); -- it was removed: so that a node that has a copy hears of it, and does not bring it back
CREATE INDEX snapshots_by_project ON snapshots (project_id);
CREATE INDEX snapshots_by_source ON snapshots (source_id);

CREATE FUNCTION forget_snapshots() RETURNS trigger LANGUAGE plpgsql SET search_path = cluster, pg_temp AS $$
BEGIN
	DELETE FROM snapshots s WHERE s.project_id = new.id;
	RETURN NULL;
END $$;
CREATE TRIGGER forget_snapshots AFTER UPDATE OF is_gone ON records FOR EACH ROW WHEN (new.kind = 'project' AND new.is_gone) EXECUTE FUNCTION forget_snapshots();

-- {result}: 'ok', also said again; 'gone': it was removed; 'taken': the id is another project's or sandbox's; 'no_project'; 'full'; 'stale'.
CREATE FUNCTION publish_snapshot(node int, secret text, epoch bigint, id text, project_id text, source_id text, expires_us bigint, record jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	old snapshots;
BEGIN
	PERFORM prove(publish_snapshot.node, secret);
	IF NOT hold(publish_snapshot.node, epoch) THEN
		RETURN '{"result": "stale"}';
	END IF;
	PERFORM 1 FROM records r WHERE r.kind = 'project' AND r.id = publish_snapshot.project_id AND NOT r.is_gone FOR KEY SHARE;
	IF NOT FOUND THEN
		RETURN '{"result": "no_project"}';
	END IF;
	SELECT * INTO old FROM snapshots s WHERE s.id = publish_snapshot.id;
	IF FOUND AND (old.project_id <> publish_snapshot.project_id OR old.source_id <> publish_snapshot.source_id) THEN
		RETURN '{"result": "taken"}';
	ELSIF old.gone_at IS NOT NULL THEN
		RETURN '{"result": "gone"}';
	ELSIF old.id IS NULL AND (SELECT count(*) FROM (SELECT 1 FROM snapshots s WHERE s.project_id = publish_snapshot.project_id LIMIT 20000) x) >= 20000 THEN
		RETURN '{"result": "full"}';
	END IF;
	INSERT INTO snapshots VALUES (publish_snapshot.id, publish_snapshot.project_id, publish_snapshot.source_id, publish_snapshot.node,
		greatest(publish_snapshot.expires_us, 0), publish_snapshot.record)
		ON CONFLICT ON CONSTRAINT snapshots_pkey DO UPDATE SET record = excluded.record, node = excluded.node, expires_us = excluded.expires_us;
	RETURN '{"result": "ok"}';
END $$;

-- {snapshot: {project_id, source_id, node, expires_us, record}}, or null.
CREATE FUNCTION snapshot_of(node int, secret text, id text) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(snapshot_of.node, secret);
	RETURN jsonb_build_object('snapshot', (SELECT jsonb_build_object('project_id', s.project_id, 'source_id', s.source_id, 'node', s.node, 'expires_us', s.expires_us,
		'record', s.record) FROM snapshots s WHERE s.id = snapshot_of.id AND s.gone_at IS NULL));
END $$;

-- What has become of these: {gone: [id], missing: [id]}: removed; not known, as of a database that was set back.
CREATE FUNCTION seen_snapshots(node int, secret text, ids jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(seen_snapshots.node, secret);
	RETURN (SELECT jsonb_build_object('gone', coalesce(jsonb_agg(t.id) FILTER (WHERE s.gone_at IS NOT NULL), '[]'),
			'missing', coalesce(jsonb_agg(t.id) FILTER (WHERE s.id IS NULL), '[]'))
		FROM (SELECT x.id FROM jsonb_array_elements_text(ids) AS x(id) LIMIT 1000) t LEFT JOIN snapshots s ON s.id = t.id);
END $$;

-- Said again it is 'ok' again; what another project has stays.
CREATE FUNCTION remove_snapshot(node int, secret text, epoch bigint, id text, project_id text) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(remove_snapshot.node, secret);
	IF NOT hold(remove_snapshot.node, epoch) THEN
		RETURN '{"result": "stale"}';
	END IF;
	UPDATE snapshots s SET gone_at = clock_timestamp(), record = '{}' WHERE s.id = remove_snapshot.id AND s.project_id = remove_snapshot.project_id AND s.gone_at IS NULL;
	RETURN '{"result": "ok"}';
END $$;

UPDATE version SET number = 7;

-- Nobody may do what is not said here.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA cluster FROM PUBLIC;
GRANT EXECUTE ON FUNCTION publish_snapshot, snapshot_of, seen_snapshots, remove_snapshot TO cloche_node;
