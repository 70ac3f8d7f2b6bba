-- SPDX-License-Identifier: Apache-2.0
-- Step 8 of a cluster's schema: what nobody needs is removed from the store of objects (src/member/collect). It only adds: members that know the steps before it
-- alone go on.
SET search_path = cluster, pg_temp;

-- What rows named until lately. Its objects stay for a day, so that a database which is set back to before that still finds them.
CREATE TABLE left_objects (
	number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	project_id text COLLATE "C" NOT NULL,
	record jsonb NOT NULL,
	left_at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE INDEX left_objects_by_age ON left_objects (left_at);

CREATE FUNCTION note_left() RETURNS trigger LANGUAGE plpgsql SET search_path = cluster, pg_temp AS $$
BEGIN
	INSERT INTO left_objects (project_id, record) VALUES (old.project_id, old.record - 'manifest');
	RETURN NULL;
END $$;
CREATE TRIGGER left_image AFTER UPDATE ON records FOR EACH ROW WHEN (old.kind = 'image' AND NOT old.is_gone AND old.record->'is_stored' = 'true'
	AND (new.is_gone OR new.record->'parts' IS DISTINCT FROM old.record->'parts')) EXECUTE FUNCTION note_left();
CREATE TRIGGER left_image_gone AFTER DELETE ON records FOR EACH ROW WHEN (old.kind = 'image' AND NOT old.is_gone AND old.record->'is_stored' = 'true')
	EXECUTE FUNCTION note_left();
CREATE TRIGGER left_snapshot AFTER UPDATE ON snapshots FOR EACH ROW WHEN (old.gone_at IS NULL AND (new.gone_at IS NOT NULL OR new.record IS DISTINCT FROM old.record))
	EXECUTE FUNCTION note_left();
CREATE TRIGGER left_snapshot_gone AFTER DELETE ON snapshots FOR EACH ROW WHEN (old.gone_at IS NULL) EXECUTE FUNCTION note_left();

-- The objects that a row names: [{project_id, kind, generation, digest, bytes}]. Whoever adds another table whose rows name objects adds it here and to object_rows();
-- else they are removed.
CREATE FUNCTION objects_of(project_id text, record jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE SET search_path = cluster, pg_temp AS $$
	SELECT coalesce(jsonb_agg(o.object), '[]') FROM (
		SELECT jsonb_build_object('project_id', objects_of.project_id, 'kind', 'image', 'generation', 0, 'digest', p->'digest', 'bytes', p->'bytes') AS object
			FROM jsonb_array_elements(record->'parts') p
		UNION ALL
		SELECT jsonb_build_object('project_id', CASE WHEN record->'image'->'shared' = 'true' THEN 'shared' ELSE objects_of.project_id END, 'kind', 'image', 'generation', 0,
			'digest', p->'digest', 'bytes', p->'bytes') FROM jsonb_array_elements(record->'image'->'parts') p
		UNION ALL
		SELECT jsonb_build_object('project_id', objects_of.project_id, 'kind', 'files', 'generation', record->'generation', 'digest', record->'files'->'digest',
			'bytes', record->'files'->'bytes') WHERE record ? 'files') o
$$;

-- Some of the rows that name objects, behind a place: {rows: [{at, is_left, objects}]}; none: that was the last. What leaves its table meanwhile is met among those
-- that have left, which come last. A project that is gone has no key, so nobody can read what it has.
CREATE FUNCTION object_rows(node int, secret text, after text) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	image text COLLATE "C" := CASE WHEN after = '' THEN '' WHEN after LIKE 'a%' THEN substr(after, 2) ELSE '~' END;
	snapshot text COLLATE "C" := CASE WHEN after < 'b' THEN '' WHEN after LIKE 'b%' THEN substr(after, 2) ELSE '~' END;
	gone bigint := CASE WHEN after LIKE 'c%' THEN substr(after, 2)::bigint ELSE 0 END;
BEGIN
	PERFORM prove(object_rows.node, secret);
	RETURN (SELECT jsonb_build_object('rows', coalesce(jsonb_agg(jsonb_build_object('at', t.at, 'is_left', t.at LIKE 'c%', 'objects', objects_of(t.project_id, t.record))
			ORDER BY t.at), '[]')) FROM (
		SELECT * FROM (
			(SELECT 'a' || r.id AS at, r.project_id, r.record FROM records r WHERE r.kind = 'image' AND r.id > image AND NOT r.is_gone AND r.record->'is_stored' = 'true'
				AND is_project(r.project_id) ORDER BY r.id LIMIT 64)
			UNION ALL
			(SELECT 'b' || s.id, s.project_id, s.record FROM snapshots s WHERE s.id > snapshot AND s.gone_at IS NULL AND is_project(s.project_id) ORDER BY s.id LIMIT 64)
			UNION ALL
			(SELECT 'c' || lpad(l.number::text, 20, '0'), l.project_id, l.record FROM left_objects l WHERE l.number > gone
				AND l.left_at > clock_timestamp() - interval '1 day' AND is_project(l.project_id) ORDER BY l.number LIMIT 64)) u
		ORDER BY u.at COLLATE "C" LIMIT 64) t);
END $$;

-- Since which start of PostgreSQL a node has found all that it has in the rows, or has said it again. A database that was set back is another start: until each
-- node has told, what no row names may be what was lost.
CREATE TABLE told_objects (node int PRIMARY KEY REFERENCES nodes ON DELETE CASCADE, server text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());

-- One node at a time does a duty. Who has died has it for another quarter of an hour, as what it has asked of others may still be done.
CREATE TABLE duties (
	duty text COLLATE "C" PRIMARY KEY,
	node int REFERENCES nodes ON DELETE SET NULL,
	until timestamptz NOT NULL DEFAULT '-infinity',
	next_at timestamptz NOT NULL DEFAULT '-infinity',
	figures jsonb NOT NULL DEFAULT '{}' CHECK (octet_length(figures::text) <= 4096));
INSERT INTO duties (duty) VALUES ('collect');

-- What is about to be removed. An upload looks here behind its last write and before its row: what it has written again and is here may be gone at any time.
CREATE TABLE object_marks (
	node int PRIMARY KEY REFERENCES nodes ON DELETE CASCADE,
	names jsonb NOT NULL CHECK (octet_length(names::text) <= 65536),
	at timestamptz NOT NULL DEFAULT clock_timestamp());

-- The names of nodes that have not told.
CREATE FUNCTION untold_nodes() RETURNS jsonb LANGUAGE sql STABLE SET search_path = cluster, pg_temp AS $$
	SELECT coalesce(jsonb_agg(u.name), '[]') FROM (SELECT n.name FROM nodes n
		WHERE NOT EXISTS (SELECT 1 FROM told_objects t WHERE t.node = n.node AND t.server = cluster.server()) ORDER BY n.node LIMIT 8) u
$$;

-- server: of which the node has its answers.
CREATE FUNCTION tell_objects(node int, secret text, epoch bigint, server text) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(tell_objects.node, secret);
	IF NOT hold(tell_objects.node, epoch) OR tell_objects.server IS DISTINCT FROM cluster.server() THEN
		RETURN '{"result": "stale"}';
	END IF;
	INSERT INTO told_objects AS t VALUES (tell_objects.node, tell_objects.server) ON CONFLICT ON CONSTRAINT told_objects_pkey
		DO UPDATE SET server = excluded.server, at = excluded.at WHERE t.server <> excluded.server;
	RETURN '{"result": "ok"}';
END $$;

-- {result, figures, untold}: 'ok': it is this node's now; 'other': another one has it; 'early': it is done for now; 'untold': it cannot be done before these nodes have told.
CREATE FUNCTION take_duty(node int, secret text, epoch bigint, duty text) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	d duties;
	untold jsonb := untold_nodes();
	result text;
BEGIN
	PERFORM prove(take_duty.node, secret);
	SELECT * INTO d FROM duties x WHERE x.duty = take_duty.duty FOR UPDATE;
	IF NOT FOUND OR NOT hold(take_duty.node, epoch) THEN
		RETURN '{"result": "stale"}';
	END IF;
	result := CASE WHEN d.until > clock_timestamp() THEN 'other' WHEN d.next_at > clock_timestamp() THEN 'early'
		WHEN untold <> '[]' THEN 'untold' ELSE 'ok' END;
	IF result = 'ok' THEN
		UPDATE duties x SET node = take_duty.node, until = clock_timestamp() + interval '15 minutes' WHERE x.duty = take_duty.duty;
		DELETE FROM object_marks m WHERE m.at < clock_timestamp() - interval '15 minutes';
		DELETE FROM left_objects l WHERE l.left_at < clock_timestamp() - interval '2 days';
	END IF;
	RETURN jsonb_build_object('result', result, 'figures', d.figures, 'untold', untold);
END $$;

-- Goes on with it, and says what is about to be removed: {result}: 'ok', 'stale', 'untold'.
CREATE FUNCTION keep_duty(node int, secret text, epoch bigint, duty text, names jsonb) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(keep_duty.node, secret);
	UPDATE duties x SET until = clock_timestamp() + interval '15 minutes' WHERE x.duty = keep_duty.duty AND x.node = keep_duty.node AND x.until > clock_timestamp();
	IF NOT FOUND OR NOT hold(keep_duty.node, epoch) THEN
		RETURN '{"result": "stale"}';
	ELSIF untold_nodes() <> '[]' THEN
		RETURN '{"result": "untold"}';
	END IF;
	INSERT INTO object_marks VALUES (keep_duty.node, keep_duty.names) ON CONFLICT ON CONSTRAINT object_marks_pkey DO UPDATE SET names = excluded.names, at = clock_timestamp();
	RETURN '{"result": "ok"}';
END $$;

CREATE FUNCTION end_duty(node int, secret text, epoch bigint, duty text, figures jsonb, again_s bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(end_duty.node, secret);
	UPDATE duties x SET until = '-infinity', next_at = clock_timestamp() + make_interval(secs => least(greatest(again_s, 1), 2592000)), figures = end_duty.figures
		WHERE x.duty = end_duty.duty AND x.node = end_duty.node AND x.until > clock_timestamp() AND hold(end_duty.node, epoch);
	IF FOUND AND NOT end_duty.figures ? 'problem' THEN -- what has failed may still be done by the store
		DELETE FROM object_marks m WHERE m.node = end_duty.node;
	END IF;
END $$;

-- {names: [digest]}: what is about to be removed, by any node.
CREATE FUNCTION marked_objects(node int, secret text) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(marked_objects.node, secret);
	RETURN (SELECT jsonb_build_object('names', coalesce(jsonb_agg(x.name), '[]')) FROM object_marks m, jsonb_array_elements_text(m.names) AS x(name));
END $$;

UPDATE version SET number = 8;

-- Nobody may do what is not said here.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA cluster FROM PUBLIC;
GRANT EXECUTE ON FUNCTION object_rows, tell_objects, take_duty, keep_duty, end_duty, marked_objects TO cloche_node;
