-- SPDX-License-Identifier: Apache-2.0
-- Step 2 of a cluster's schema, behind schema.sql: projects, keys and quotas for all nodes, names with idempotency keys, which node has which sandbox, and nodes
-- that are cordoned or removed. It only adds: members that know step 1 alone go on.
SET search_path = cluster, pg_temp;

-- Each change of a record has the next number of this row, whose lock is held until the change is there: who has seen a number has seen all below it. (A sequence
-- lets a late commit be passed over.)
CREATE TABLE changes (one boolean PRIMARY KEY DEFAULT true CHECK (one), number bigint NOT NULL, n_records bigint NOT NULL);
INSERT INTO changes (number, n_records) VALUES (0, 0);

-- What each node keeps a copy of. unique_text is a project's name, or the digest of a key's secret. What has gone stays, so that each node hears of it, and does
-- not come back.
CREATE TABLE records (
	kind text COLLATE "C" CHECK (kind IN ('project', 'key', 'quota')),
	id text COLLATE "C" CHECK (length(id) BETWEEN 1 AND 64),
	project_id text COLLATE "C" NOT NULL CHECK (length(project_id) BETWEEN 1 AND 64),
	unique_text text COLLATE "C" CHECK (length(unique_text) BETWEEN 1 AND 256),
	record jsonb NOT NULL CHECK (octet_length(record::text) <= 8192),
	is_gone boolean NOT NULL DEFAULT false,
	number bigint NOT NULL UNIQUE,
	node int NOT NULL, -- who said it last
	PRIMARY KEY (kind, id));
CREATE UNIQUE INDEX records_unique ON records (kind, unique_text) WHERE NOT is_gone;
CREATE INDEX records_by_project ON records (project_id);

-- Which create has used which idempotency key, for a day. The digest is the request's.
CREATE TABLE once (
	project_id text COLLATE "C", key text COLLATE "C" CHECK (length(key) BETWEEN 1 AND 255),
	digest text COLLATE "C" NOT NULL CHECK (length(digest) <= 64),
	sandbox_id text COLLATE "C" NOT NULL,
	node int NOT NULL REFERENCES nodes ON DELETE CASCADE,
	at timestamptz NOT NULL DEFAULT now(), -- no node depends on it: it bounds how long a row is kept
	PRIMARY KEY (project_id, key));
CREATE INDEX once_by_sandbox ON once (node, sandbox_id);
CREATE INDEX once_by_age ON once (project_id, at);
CREATE INDEX names_by_sandbox ON names (node, sandbox_id);

-- Which node has which sandbox, as that node has told it; for lists, and for who asks where an id is.
CREATE TABLE sandboxes (
	sandbox_id text COLLATE "C" PRIMARY KEY CHECK (length(sandbox_id) BETWEEN 1 AND 64),
	project_id text COLLATE "C" NOT NULL,
	node int NOT NULL REFERENCES nodes ON DELETE CASCADE,
	created_us bigint NOT NULL,
	row jsonb NOT NULL CHECK (octet_length(row::text) <= 32768)) WITH (fillfactor = 70);
CREATE INDEX sandboxes_by_project ON sandboxes (project_id, created_us, sandbox_id);
CREATE INDEX sandboxes_by_node ON sandboxes (node);
CREATE TABLE told (node int PRIMARY KEY REFERENCES nodes ON DELETE CASCADE, at timestamptz NOT NULL) WITH (fillfactor = 50);

-- A new record, or a newer state of one: {result, number, holder}. 'ok'; 'taken' and by whom: another has the unique text; 'gone': it was removed, and does not
-- come back; 'no_project'; 'full'; 'stale': an old epoch. Said again it is 'ok' again. A project that goes takes its keys and quotas along.
CREATE FUNCTION put_record(node int, secret text, epoch bigint, kind text, id text, project_id text, unique_text text, record jsonb, is_gone boolean)
RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	c changes;
	was records;
	other text;
BEGIN
	PERFORM prove(put_record.node, secret);
	IF NOT hold(put_record.node, epoch) THEN
		RETURN '{"result": "stale"}';
	END IF;
	SELECT * INTO c FROM changes FOR NO KEY UPDATE;
	SELECT * INTO was FROM records r WHERE r.kind = put_record.kind AND r.id = put_record.id;
	IF FOUND THEN
		IF was.is_gone AND NOT put_record.is_gone THEN
			RETURN jsonb_build_object('result', 'gone', 'number', was.number);
		END IF;
		IF was.project_id <> put_record.project_id THEN
			RETURN jsonb_build_object('result', 'taken', 'holder', was.id);
		END IF;
		IF was.is_gone = put_record.is_gone AND (was.is_gone OR (was.record = put_record.record AND was.unique_text IS NOT DISTINCT FROM put_record.unique_text)) THEN
			RETURN jsonb_build_object('result', 'ok', 'number', was.number);
		END IF;
	ELSIF c.n_records >= 200000 THEN
		RETURN '{"result": "full"}';
	END IF;
	IF put_record.kind <> 'project' AND NOT put_record.is_gone THEN
		PERFORM 1 FROM records r WHERE r.kind = 'project' AND r.id = put_record.project_id AND NOT r.is_gone;
		IF NOT FOUND THEN
			RETURN '{"result": "no_project"}';
		END IF;
	END IF;
	SELECT r.id INTO other FROM records r WHERE r.kind = put_record.kind AND r.unique_text = put_record.unique_text AND NOT r.is_gone AND r.id <> put_record.id;
	IF FOUND AND NOT put_record.is_gone THEN
		RETURN jsonb_build_object('result', 'taken', 'holder', other);
	END IF;
	IF put_record.kind = 'project' AND put_record.is_gone THEN
		WITH gone AS (DELETE FROM records r WHERE r.project_id = put_record.id AND r.kind <> 'project' RETURNING 1)
			UPDATE changes x SET n_records = x.n_records - (SELECT count(*) FROM gone);
	END IF;
	UPDATE changes x SET number = c.number + 1, n_records = x.n_records + CASE WHEN was.id IS NULL THEN 1 ELSE 0 END;
	INSERT INTO records VALUES (put_record.kind, put_record.id, put_record.project_id, put_record.unique_text, put_record.record, put_record.is_gone, c.number + 1,
		put_record.node)
		ON CONFLICT ON CONSTRAINT records_pkey DO UPDATE SET unique_text = excluded.unique_text, record = excluded.record, is_gone = excluded.is_gone,
			number = excluded.number, node = excluded.node;
	RETURN jsonb_build_object('result', 'ok', 'number', c.number + 1);
END $$;

-- What has changed behind a number, oldest first, as much as a message holds: {number, records}. number is that of the last one told, or of the newest change if
-- no more is to come: records that have changed again since have a higher one.
CREATE FUNCTION changed(node int, secret text, after bigint) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	newest bigint := (SELECT c.number FROM changes c);
	told_ jsonb;
	last bigint;
	n bigint;
BEGIN
	PERFORM prove(changed.node, secret);
	SELECT jsonb_agg(jsonb_build_object('kind', t.kind, 'id', t.id, 'project_id', t.project_id, 'unique', t.unique_text, 'record', t.record, 'is_gone', t.is_gone)
		ORDER BY t.number), max(t.number), count(*) INTO told_, last, n
		FROM (SELECT x.*, sum(octet_length(x.record::text) + 500) OVER (ORDER BY x.number) AS size
			FROM (SELECT * FROM records r WHERE r.number > changed.after ORDER BY r.number LIMIT 64) x) t WHERE t.size <= 40000;
	IF n = 0 OR NOT EXISTS (SELECT 1 FROM records r WHERE r.number > last) THEN
		last := newest;
	END IF;
	RETURN jsonb_build_object('number', last, 'newest', newest, 'records', coalesce(told_, '[]'));
END $$;

-- As of step 1, and the number of the newest change.
DROP FUNCTION beat;
CREATE FUNCTION beat(node int, secret text, epoch bigint, number bigint, figures jsonb, OUT is_taken boolean, OUT server text, OUT watched jsonb,
	OUT wanted jsonb, OUT n_requests int, OUT directory_number bigint, OUT at_us bigint, OUT change bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp SET synchronous_commit = off AS $$
BEGIN
	PERFORM prove(beat.node, secret);
	UPDATE beats b SET number = greatest(b.number, beat.number), figures = beat.figures, seen_at = clock_timestamp()
		WHERE b.node = beat.node AND b.epoch = beat.epoch AND b.epoch > 0;
	is_taken := FOUND;
	server := cluster.server();
	IF NOT is_taken THEN
		RETURN;
	END IF;
	watched := (SELECT jsonb_agg(jsonb_build_object('node', w.node, 'epoch', w.epoch, 'number', w.number)) FROM (
		SELECT b.node, b.epoch, b.number FROM beats b JOIN nodes n USING (node) WHERE b.epoch > 0 AND NOT n.is_lost AND b.node <> beat.node
		ORDER BY b.node < beat.node, b.node LIMIT 3) w);
	wanted := (SELECT jsonb_agg(jsonb_build_object('project_id', l.project_id, 'what', l.what)) FROM leases l JOIN quotas q USING (project_id, what)
		WHERE l.node = beat.node AND l.amount > 0 AND q.is_wanted);
	n_requests := (SELECT count(*) FROM invitations i WHERE i.by_node = beat.node AND i.request IS NOT NULL AND i.certificate IS NULL AND i.refusal IS NULL);
	directory_number := (SELECT c.directory_number FROM cluster c);
	change := (SELECT c.number FROM changes c);
	at_us := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
END $$;

-- The name and the idempotency key of a create, both or none (each may be NULL): {result, holder, node}. 'ok'; 'taken': another sandbox has the name; 'done': the
-- same request has made a sandbox before; 'other_request': another request had this key; 'stale': an old epoch or number.
CREATE FUNCTION take_create(node int, secret text, epoch bigint, number bigint, project_id text, sandbox_id text, name text, key text, digest text)
RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	o once;
	x names;
BEGIN
	PERFORM prove(take_create.node, secret);
	IF NOT hold(take_create.node, epoch) THEN
		RETURN '{"result": "stale"}';
	END IF;
	UPDATE nodes n SET name_number = take_create.number WHERE n.node = take_create.node AND n.name_number < take_create.number;
	IF NOT FOUND THEN
		RETURN '{"result": "stale"}';
	END IF;
	IF key IS NOT NULL THEN
		DELETE FROM once y WHERE y.project_id = take_create.project_id AND y.at < now() - interval '1 day';
		INSERT INTO once VALUES (take_create.project_id, take_create.key, take_create.digest, take_create.sandbox_id, take_create.node) ON CONFLICT DO NOTHING;
		SELECT * INTO o FROM once y WHERE y.project_id = take_create.project_id AND y.key = take_create.key;
		IF o.digest <> take_create.digest THEN
			RETURN jsonb_build_object('result', 'other_request');
		END IF;
		IF o.sandbox_id <> take_create.sandbox_id THEN
			RETURN jsonb_build_object('result', 'done', 'holder', o.sandbox_id, 'node', o.node);
		END IF;
	END IF;
	IF name IS NOT NULL THEN
		INSERT INTO names VALUES (take_create.project_id, take_create.name, take_create.sandbox_id, take_create.node) ON CONFLICT DO NOTHING;
		SELECT * INTO x FROM names y WHERE y.project_id = take_create.project_id AND y.name = take_create.name;
		IF x.sandbox_id <> take_create.sandbox_id THEN
			DELETE FROM once y WHERE y.project_id = take_create.project_id AND y.key = take_create.key AND y.sandbox_id = take_create.sandbox_id;
			RETURN jsonb_build_object('result', 'taken', 'holder', x.sandbox_id, 'node', x.node);
		END IF;
	END IF;
	RETURN jsonb_build_object('result', 'ok');
END $$;

-- All that a sandbox of this node has taken; with_key: its idempotency key, too. Done twice it does no more than once.
CREATE FUNCTION free_create(node int, secret text, epoch bigint, number bigint, sandbox_id text, with_key boolean) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(free_create.node, secret);
	IF NOT hold(free_create.node, epoch) THEN
		RETURN '{"result": "stale"}';
	END IF;
	UPDATE nodes n SET name_number = greatest(n.name_number, free_create.number) WHERE n.node = free_create.node;
	DELETE FROM names x WHERE x.sandbox_id = free_create.sandbox_id AND x.node = free_create.node;
	IF with_key THEN
		DELETE FROM once x WHERE x.sandbox_id = free_create.sandbox_id AND x.node = free_create.node;
	END IF;
	RETURN '{"result": "ok"}';
END $$;

-- What this node has taken, by sandbox, behind the one that is named: for a gateway that has started anew and compares it with what it has.
CREATE FUNCTION taken(node int, secret text, after text) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(taken.node, secret);
	RETURN (SELECT jsonb_build_object('result', 'ok', 'sandboxes', coalesce(jsonb_agg(t.sandbox_id ORDER BY t.sandbox_id), '[]'), 'has_more', count(*) = 500) FROM (
		SELECT u.sandbox_id FROM (SELECT x.sandbox_id FROM names x WHERE x.node = taken.node AND x.sandbox_id > taken.after
			UNION SELECT o.sandbox_id FROM once o WHERE o.node = taken.node AND o.sandbox_id > taken.after) u ORDER BY u.sandbox_id LIMIT 500) t);
END $$;

-- Who has a name: {holder, node}, both NULL for nobody.
CREATE FUNCTION named(node int, secret text, project_id text, name text) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(named.node, secret);
	RETURN coalesce((SELECT jsonb_build_object('holder', x.sandbox_id, 'node', x.node) FROM names x WHERE x.project_id = named.project_id AND x.name = named.name),
		'{"holder": null, "node": null}');
END $$;

-- What has changed of this node's sandboxes, in one batch; is_first: it is the first of all that it has, and what was known is forgotten. A row of another node
-- stays that node's. Said without waiting for the disk: it can be said again.
CREATE FUNCTION tell(node int, secret text, epoch bigint, is_first boolean, rows jsonb, gone jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp SET synchronous_commit = off AS $$
BEGIN
	PERFORM prove(tell.node, secret);
	IF NOT hold(tell.node, epoch) THEN
		RETURN '{"result": "stale"}';
	END IF;
	IF is_first THEN
		DELETE FROM sandboxes s WHERE s.node = tell.node;
	END IF;
	DELETE FROM sandboxes s WHERE s.node = tell.node AND s.sandbox_id IN (SELECT jsonb_array_elements_text(gone));
	INSERT INTO sandboxes SELECT r->>'id', r->>'project_id', tell.node, (r->'row'->>'created_us')::bigint, r->'row' FROM jsonb_array_elements(rows) r ORDER BY 1
		ON CONFLICT ON CONSTRAINT sandboxes_pkey DO UPDATE SET row = excluded.row WHERE sandboxes.node = excluded.node;
	INSERT INTO told VALUES (tell.node, clock_timestamp()) ON CONFLICT ON CONSTRAINT told_pkey DO UPDATE SET at = excluded.at;
	RETURN '{"result": "ok"}';
END $$;

-- Which node has a sandbox; NULL: nobody, as far as is told.
CREATE FUNCTION "where"(node int, secret text, id text) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove("where".node, secret);
	RETURN (SELECT jsonb_build_object('node', (SELECT s.node FROM sandboxes s WHERE s.sandbox_id = "where".id)));
END $$;

-- Sandboxes of other nodes, newest first, behind a time and an id: {rows: [{node, as_of_us, row}], has_more}, as many as a message holds.
CREATE FUNCTION list_others(node int, secret text, project_id text, before_us bigint, before_id text, most int, filter jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	found_ jsonb;
	n int;
BEGIN
	PERFORM prove(list_others.node, secret);
	SELECT jsonb_agg(jsonb_build_object('node', n.name, 'as_of_us', (extract(epoch FROM w.at) * 1000000)::bigint, 'is_lost', n.is_lost, 'row', t.row)
		ORDER BY t.created_us DESC, t.sandbox_id DESC), count(*) INTO found_, n
		FROM (SELECT x.*, sum(octet_length(x.row::text) + 200) OVER (ORDER BY x.created_us DESC, x.sandbox_id DESC) AS size
			FROM (SELECT * FROM sandboxes s WHERE s.project_id = list_others.project_id AND s.node <> list_others.node
				AND (s.created_us, s.sandbox_id) < (before_us, before_id)
				AND (filter->>'state' IS NULL OR s.row->>'state' = filter->>'state') AND (filter->>'group' IS NULL OR s.row->>'group' = filter->>'group')
				AND (filter->>'tag_name' IS NULL OR s.row->'tags'->>(filter->>'tag_name') = filter->>'tag_value')
				ORDER BY s.created_us DESC, s.sandbox_id DESC LIMIT least(most, 101)) x) t
		JOIN nodes n ON n.node = t.node LEFT JOIN told w ON w.node = t.node WHERE t.size <= 48000;
	RETURN jsonb_build_object('rows', coalesce(found_, '[]'));
END $$;

-- What the database has of a node that has nothing itself, with its idempotency keys. What is known of its sandboxes stays, so that a list can say who had them.
CREATE OR REPLACE FUNCTION free_all(of_node int) RETURNS void LANGUAGE plpgsql SET search_path = cluster, pg_temp AS $$
DECLARE
	l record;
BEGIN
	FOR l IN SELECT * FROM leases WHERE node = of_node ORDER BY project_id, what LOOP -- in order: two that do this do not lock each other out
		UPDATE quotas q SET leased = q.leased - l.amount WHERE q.project_id = l.project_id AND q.what = l.what;
	END LOOP;
	DELETE FROM leases WHERE node = of_node;
	DELETE FROM names WHERE names.node = of_node;
	DELETE FROM once WHERE once.node = of_node;
	UPDATE sandboxes s SET row = s.row || jsonb_build_object('state', 'failed', 'ended', jsonb_build_object('cause', 'node_lost', 'detail', NULL, 'message', 'its node was silent for too long',
		'at_us', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
		WHERE s.node = of_node AND s.row->>'state' NOT IN ('stopped', 'failed');
END $$;

-- A cordoned node makes no new sandboxes.
ALTER TABLE nodes ADD COLUMN is_cordoned boolean NOT NULL DEFAULT false;

-- Names of nodes that were removed: their certificates name them until they end, so nobody else may have them.
CREATE TABLE removed_names (name text COLLATE "C" PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());

-- For the owner alone: a new node, with its tags, none of which an other has.
CREATE OR REPLACE FUNCTION add_node(address text, secret text, tags int[], name text DEFAULT NULL) RETURNS int LANGUAGE plpgsql SET search_path = cluster, pg_temp AS $$
DECLARE
	added int;
BEGIN
	IF length(secret) < 32 THEN
		RAISE EXCEPTION 'secret: has % letters, 32 are the least', length(secret) USING ERRCODE = 'CL002';
	END IF;
	IF EXISTS (SELECT 1 FROM removed_names r WHERE r.name = add_node.name) THEN
		RAISE EXCEPTION 'a node named % was removed, and its certificate may still be somewhere', name USING ERRCODE = '23505';
	END IF;
	INSERT INTO nodes (address, secret_sha256, name) VALUES (add_node.address, sha256(convert_to(secret, 'UTF8')), add_node.name)
		RETURNING nodes.node INTO added;
	INSERT INTO beats (node) VALUES (added);
	INSERT INTO node_tags (tag, node) SELECT t, added FROM unnest(tags) t;
	UPDATE cluster SET directory_number = directory_number + 1;
	RETURN added;
END $$;

-- All nodes. How long ago each was heard of is by this server's clock, for people.
CREATE OR REPLACE FUNCTION directory(node int, secret text) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(directory.node, secret);
	RETURN (SELECT jsonb_build_object('number', (SELECT c.directory_number FROM cluster c), 'nodes', coalesce(jsonb_agg(jsonb_build_object(
		'node', n.node, 'name', n.name, 'address', n.address, 'epoch', b.epoch, 'is_claimed', n.is_claimed, 'is_lost', n.is_lost, 'is_cordoned', n.is_cordoned,
		'seen_ms_ago', (extract(epoch FROM clock_timestamp() - b.seen_at) * 1000)::bigint, 'figures', b.figures,
		'tags', (SELECT jsonb_agg(t.tag) FROM node_tags t WHERE t.node = n.node)) ORDER BY n.node), '[]'))
		FROM nodes n JOIN beats b USING (node));
END $$;

-- A node says of itself that it makes no new sandboxes, or does again. False: it is so already.
CREATE FUNCTION cordon(node int, secret text, is_cordoned boolean) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(cordon.node, secret);
	UPDATE nodes n SET is_cordoned = cordon.is_cordoned WHERE n.node = cordon.node AND n.is_cordoned <> cordon.is_cordoned;
	IF FOUND THEN
		UPDATE cluster SET directory_number = directory_number + 1;
		RETURN true;
	END IF;
	RETURN false;
END $$;

-- For the owner alone, as no node may write another's rows: the same of any node, by its name.
CREATE FUNCTION cordon_named(name text, is_cordoned boolean) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM 1 FROM nodes n WHERE n.name = cordon_named.name;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'there is no node %', name USING ERRCODE = 'CL007';
	END IF;
	UPDATE nodes n SET is_cordoned = cordon_named.is_cordoned WHERE n.name = cordon_named.name AND n.is_cordoned <> cordon_named.is_cordoned;
	IF FOUND THEN
		UPDATE cluster SET directory_number = directory_number + 1;
		RETURN true;
	END IF;
	RETURN false;
END $$;

-- For the owner alone: a node goes, with all that it had here. Its secret proves nothing any more, and peers know it no more.
CREATE FUNCTION remove_node(name text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	gone nodes;
BEGIN
	SELECT * INTO gone FROM nodes n WHERE n.name = remove_node.name;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'there is no node %', name USING ERRCODE = 'CL007';
	END IF;
	PERFORM 1 FROM beats b WHERE b.node = gone.node FOR UPDATE;
	SELECT * INTO gone FROM nodes n WHERE n.node = gone.node;
	IF NOT gone.is_lost AND NOT gone.is_cordoned THEN
		RAISE EXCEPTION 'the node % is neither cordoned nor lost', name USING ERRCODE = 'CL008';
	END IF;
	PERFORM free_all(gone.node);
	INSERT INTO removed_names (name) VALUES (gone.name) ON CONFLICT DO NOTHING;
	DELETE FROM nodes n WHERE n.node = gone.node;
	UPDATE cluster SET directory_number = directory_number + 1;
END $$;

UPDATE version SET number = 2;

-- Nobody may do what is not said here.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA cluster FROM PUBLIC;
GRANT EXECUTE ON FUNCTION beat, put_record, changed, take_create, free_create, taken, named, tell, "where", list_others, cordon TO cloche_node;
