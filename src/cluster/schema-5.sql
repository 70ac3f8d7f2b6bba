-- SPDX-License-Identifier: Apache-2.0
-- Step 5 of a cluster's schema, behind schema-4.sql: amounts of quotas out of the limits that records say, and how a node finds out that the database was set back.
-- It only adds: members that know the steps before it alone go on.
SET search_path = cluster, pg_temp;

-- How much of a lease its node has said to be used, and when: for people alone, as no grant depends on it.
ALTER TABLE leases ADD COLUMN spent bigint NOT NULL DEFAULT 0, ADD COLUMN spent_at timestamptz;

-- Creates a minute: what may be made at once, in millionths of a create. It fills by this server's clock, which decides about this rate and nothing else.
CREATE TABLE rates (
	owner text COLLATE "C" PRIMARY KEY,
	tokens bigint NOT NULL,
	filled_at timestamptz NOT NULL) WITH (fillfactor = 50);

-- A budget is a month's (budget:2026-11-01), and what a node has leased of it may be spent: that stays spent when the node is lost or removed.
ALTER TABLE leases DROP CONSTRAINT leases_node_fkey, ADD FOREIGN KEY (node) REFERENCES nodes ON DELETE CASCADE;

CREATE OR REPLACE FUNCTION free_all(of_node int) RETURNS void LANGUAGE plpgsql SET search_path = cluster, pg_temp AS $$
DECLARE
	l record;
BEGIN
	FOR l IN SELECT * FROM leases WHERE node = of_node AND what NOT LIKE 'budget:%' ORDER BY project_id, what LOOP -- in order: two that do this do not lock each other out
		UPDATE quotas q SET leased = q.leased - l.amount WHERE q.project_id = l.project_id AND q.what = l.what;
	END LOOP;
	DELETE FROM leases WHERE node = of_node AND what NOT LIKE 'budget:%';
	DELETE FROM names WHERE names.node = of_node;
	DELETE FROM once WHERE once.node = of_node;
	UPDATE sandboxes s SET row = s.row || jsonb_build_object('state', 'failed', 'ended', jsonb_build_object('cause', 'node_lost', 'detail', NULL, 'message', 'its node was silent for too long',
		'at_us', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
		WHERE s.node = of_node AND s.row->>'state' NOT IN ('stopped', 'failed');
END $$;

-- How many writes of each node were done. A database that knows of fewer than it has acknowledged was set back. Apart from nodes and beats, so that it is no part
-- of their order of locks.
CREATE TABLE writes (node int PRIMARY KEY REFERENCES nodes ON DELETE CASCADE, number bigint NOT NULL) WITH (fillfactor = 50);

-- Said in one statement with each write, so that both are there or none.
CREATE FUNCTION wrote(node int, secret text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	done bigint;
BEGIN
	PERFORM prove(wrote.node, secret);
	INSERT INTO writes AS w VALUES (wrote.node, 1) ON CONFLICT ON CONSTRAINT writes_pkey DO UPDATE SET number = w.number + 1 RETURNING w.number INTO done;
	RETURN done;
END $$;

CREATE FUNCTION written(node int, secret text) RETURNS bigint LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(written.node, secret);
	RETURN coalesce((SELECT w.number FROM writes w WHERE w.node = written.node), 0);
END $$;

-- A limit in the unit of leases, as the owner's record says it, or the usual one where that says none. The record stays as it is until the transaction ends. One
-- that no gateway has written is a limit of nothing.
CREATE FUNCTION limit_of(owner text, what text, usual bigint) RETURNS bigint LANGUAGE plpgsql SET search_path = cluster, pg_temp AS $$
DECLARE
	most CONSTANT bigint := 4611686018427387904;
	said text;
BEGIN
	SELECT r.record->>split_part(limit_of.what, ':', 1) INTO said FROM records r WHERE r.kind = 'quota' AND r.id = limit_of.owner AND NOT r.is_gone FOR SHARE;
	IF said IS NULL THEN
		RETURN least(greatest(usual, 0), most);
	ELSIF said = 'unlimited' THEN
		RETURN most;
	ELSIF said !~ '^[0-9]{1,18}([.][0-9]{1,30})?$' THEN
		RETURN 0;
	END IF;
	RETURN least(trunc(said::numeric * CASE split_part(limit_of.what, ':', 1) WHEN 'vcpus' THEN 1000 WHEN 'memory_mib' THEN 1048576 WHEN 'disk_mib' THEN 1048576
		WHEN 'budget' THEN 1000000000 ELSE 1 END), most);
END $$;

-- Many leases at once, in the order of their rows, so that two nodes do not lock each other out: {result, leases: [{owner, what, number, total, limit, leased, used}]}.
-- total is what lease() gives; NULL: an old number, or nobody knows the owner.
CREATE FUNCTION lease_many(node int, secret text, epoch bigint, calls jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	c record;
	q quotas;
	got bigint;
	most bigint;
	all_ jsonb := '[]';
BEGIN
	PERFORM prove(lease_many.node, secret);
	IF NOT hold(lease_many.node, epoch) THEN
		RETURN '{"result": "stale"}';
	END IF;
	FOR c IN SELECT x.* FROM jsonb_to_recordset(calls) AS x(owner text, what text, number bigint, total bigint, needed bigint, spent bigint, usual bigint)
		ORDER BY x.owner COLLATE "C", x.what COLLATE "C" LIMIT 128 LOOP
		got := NULL;
		q := NULL;
		IF EXISTS (SELECT 1 FROM records r WHERE r.kind IN ('project', 'key') AND r.id = c.owner AND NOT r.is_gone)
			AND c.what ~ '^(sandboxes|vcpus|memory_mib|disk_mib|budget:[0-9]{4}-[0-9]{2}-01)$' THEN
			INSERT INTO quotas (project_id, what, "limit") VALUES (c.owner, c.what, 0) ON CONFLICT DO NOTHING;
			PERFORM 1 FROM quotas x WHERE x.project_id = c.owner AND x.what = c.what FOR NO KEY UPDATE;
			most := limit_of(c.owner, c.what, c.usual);
			UPDATE quotas x SET "limit" = most WHERE x.project_id = c.owner AND x.what = c.what AND x."limit" <> most;
			got := lease(lease_many.node, secret, epoch, c.owner, c.what, c.number, c.total, c.needed);
			UPDATE leases l SET spent = greatest(c.spent, 0), spent_at = clock_timestamp()
				WHERE l.node = lease_many.node AND l.project_id = c.owner AND l.what = c.what AND got IS NOT NULL;
			SELECT * INTO q FROM quotas x WHERE x.project_id = c.owner AND x.what = c.what;
		END IF;
		all_ := all_ || jsonb_build_object('owner', c.owner, 'what', c.what, 'number', c.number, 'total', got, 'limit', q."limit", 'leased', q.leased,
			'used', (SELECT sum(l.spent) FROM leases l WHERE l.project_id = c.owner AND l.what = c.what));
	END LOOP;
	RETURN jsonb_build_object('result', 'ok', 'leases', all_);
END $$;
CREATE INDEX leases_by_owner ON leases (project_id, what);

-- A node takes up what the database has for it, as its gateway has started anew or its epoch is another: {result, leases: [{owner, what, number, total}], has_more},
-- in their order behind the one that is named. Calls that are still under way are void from then on.
CREATE FUNCTION own_leases(node int, secret text, epoch bigint, after_owner text, after_what text) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	all_ jsonb;
	n int;
BEGIN
	PERFORM prove(own_leases.node, secret);
	IF NOT hold(own_leases.node, epoch) THEN
		RETURN '{"result": "stale"}';
	END IF;
	DELETE FROM leases l WHERE l.node = own_leases.node AND l.amount = 0 AND after_owner = '';
	WITH picked AS (SELECT l.project_id, l.what FROM leases l WHERE l.node = own_leases.node
			AND (l.project_id, l.what) > (after_owner COLLATE "C", after_what COLLATE "C") ORDER BY l.project_id, l.what LIMIT 200),
		raised AS (UPDATE leases l SET number = l.number + 1000 FROM picked p
			WHERE l.node = own_leases.node AND l.project_id = p.project_id AND l.what = p.what RETURNING l.*)
		SELECT jsonb_agg(jsonb_build_object('owner', r.project_id, 'what', r.what, 'number', r.number, 'total', r.amount) ORDER BY r.project_id, r.what), count(*)
			INTO all_, n FROM raised r;
	RETURN jsonb_build_object('result', 'ok', 'leases', coalesce(all_, '[]'), 'has_more', n = 200);
END $$;

-- Which of a node's leases others wait for: {wanted: [{owner, what}]}.
CREATE FUNCTION wanted(node int, secret text) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(wanted.node, secret);
	RETURN (SELECT jsonb_build_object('wanted', coalesce(jsonb_agg(jsonb_build_object('owner', t.project_id, 'what', t.what)), '[]')) FROM (
		SELECT l.project_id, l.what FROM leases l JOIN quotas q USING (project_id, what) WHERE l.node = wanted.node AND l.amount > 0 AND q.is_wanted LIMIT 200) t);
END $$;

-- Creates of an owner, out of a bucket that holds a minute's worth and fills evenly: {result, n, wait_ms, limit}. n may be less than was asked for; then one more is
-- there in wait_ms (NULL: never).
CREATE FUNCTION take_rate(node int, secret text, epoch bigint, owner text, n int, usual bigint) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	most bigint;
	r rates;
	has numeric;
	given bigint;
BEGIN
	PERFORM prove(take_rate.node, secret);
	IF NOT hold(take_rate.node, epoch) THEN
		RETURN '{"result": "stale"}';
	END IF;
	IF NOT EXISTS (SELECT 1 FROM records x WHERE x.kind IN ('project', 'key') AND x.id = take_rate.owner AND NOT x.is_gone) THEN
		RETURN '{"result": "ok", "n": 0, "wait_ms": null, "limit": 0}';
	END IF;
	most := least(limit_of(take_rate.owner, 'creates_per_minute', usual), 1000000);
	INSERT INTO rates VALUES (take_rate.owner, most * 1000000, clock_timestamp()) ON CONFLICT DO NOTHING;
	SELECT * INTO r FROM rates x WHERE x.owner = take_rate.owner FOR NO KEY UPDATE;
	has := least(r.tokens + greatest(extract(epoch FROM clock_timestamp() - r.filled_at), 0) * most * 1000000 / 60, most * 1000000);
	given := least(greatest(take_rate.n, 0), trunc(has / 1000000));
	UPDATE rates x SET tokens = trunc(has) - given * 1000000, filled_at = clock_timestamp() WHERE x.owner = take_rate.owner;
	RETURN jsonb_build_object('result', 'ok', 'n', given, 'limit', most,
		'wait_ms', CASE WHEN most = 0 THEN NULL ELSE ceil((1000000 - (trunc(has) - given * 1000000)) * 60000 / (most * 1000000))::bigint END);
END $$;

UPDATE version SET number = 5;

-- Nobody may do what is not said here.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA cluster FROM PUBLIC;
GRANT EXECUTE ON FUNCTION wrote, written, lease_many, own_leases, wanted, take_rate TO cloche_node;
