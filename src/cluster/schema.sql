-- SPDX-License-Identifier: Apache-2.0
-- What the nodes of a cluster agree on, in PostgreSQL 15 or later: run by the owner of an empty database.
--
-- Nodes log in as members of the role cloche_node. It has no right on any table: it may only call the functions below. Each call names its node and proves
-- it by the node's secret, and each that writes names the epoch of the node's join: a call with an old one does nothing. Functions that change a node's
-- rows hold the row of its beat, FOR KEY SHARE, which beats do not wait for; what takes its rights away takes it FOR UPDATE. So either comes first.
--
-- No clock of this server decides anything (src/cluster/watch.h). tests/cluster/model.h says what each function does; tests/functional/test_cluster_schema.py
-- holds this text against it.
CREATE SCHEMA cluster;
SET search_path = cluster, pg_temp;

-- A member whose own number is below least_member is refused: it would not know what newer ones have written.
CREATE TABLE version (one boolean PRIMARY KEY DEFAULT true CHECK (one), number int NOT NULL, least_member int NOT NULL);
INSERT INTO version (number, least_member) VALUES (1, 1);

-- Which cluster this is, and the times that all its nodes go by: two nodes with different ones would claim each other. The certificate is its authority's.
CREATE TABLE cluster (
	one boolean PRIMARY KEY DEFAULT true CHECK (one),
	cluster_id text NOT NULL,
	certificate text NOT NULL,
	fence_after_ms bigint NOT NULL CHECK (fence_after_ms BETWEEN 1000 AND 60000),
	lost_after_ms bigint NOT NULL CHECK (lost_after_ms >= 5 * fence_after_ms),
	directory_number bigint NOT NULL DEFAULT 1); -- raised with each node that comes or goes

CREATE TABLE nodes (
	node int PRIMARY KEY GENERATED ALWAYS AS IDENTITY CHECK (node > 0),
	secret_sha256 bytea NOT NULL,
	address text NOT NULL UNIQUE CHECK (length(address) BETWEEN 1 AND 255),
	name text COLLATE "C" UNIQUE CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
	name_number bigint NOT NULL DEFAULT 0, -- of the last call for a name
	is_claimed boolean NOT NULL DEFAULT false,
	is_lost boolean NOT NULL DEFAULT false);

-- A row a tag: its four letters are twenty bits (src/cluster/tag.h).
CREATE TABLE node_tags (
	tag int PRIMARY KEY CHECK (tag BETWEEN 0 AND 1048575),
	node int NOT NULL REFERENCES nodes ON DELETE CASCADE);
CREATE INDEX node_tags_by_node ON node_tags (node);

-- Written by each node every two seconds: apart from its other columns, and with room on each page for the next version of a row.
CREATE TABLE beats (
	node int PRIMARY KEY REFERENCES nodes ON DELETE CASCADE,
	epoch bigint NOT NULL DEFAULT 0, -- 0: it has never joined
	number bigint NOT NULL DEFAULT 0,
	figures jsonb,
	seen_at timestamptz) WITH (fillfactor = 40); -- for people alone: it decides nothing

CREATE TABLE names (
	project_id text COLLATE "C", name text COLLATE "C",
	sandbox_id text COLLATE "C" NOT NULL,
	node int NOT NULL REFERENCES nodes ON DELETE CASCADE,
	PRIMARY KEY (project_id, name));
CREATE INDEX names_by_node ON names (node);

CREATE TABLE quotas (
	project_id text COLLATE "C", what text COLLATE "C",
	"limit" bigint NOT NULL CHECK ("limit" >= 0),
	leased bigint NOT NULL DEFAULT 0 CHECK (leased >= 0),
	is_wanted boolean NOT NULL DEFAULT false, -- somebody has found nothing left
	PRIMARY KEY (project_id, what)) WITH (fillfactor = 50);

CREATE TABLE leases (
	project_id text COLLATE "C", what text COLLATE "C",
	node int REFERENCES nodes,
	amount bigint NOT NULL CHECK (amount >= 0),
	number bigint NOT NULL, -- of the last call
	PRIMARY KEY (node, project_id, what),
	FOREIGN KEY (project_id, what) REFERENCES quotas) WITH (fillfactor = 50);

-- A row an invitation. The database has a hash of a half of its secret: enough to know who may use it, and not enough to have a certificate signed, which takes
-- a proof by the other half that by_node alone can check.
CREATE TABLE invitations (
	invitation text COLLATE "C" PRIMARY KEY,
	key_sha256 bytea NOT NULL,
	by_node int NOT NULL REFERENCES nodes ON DELETE CASCADE,
	expires_at timestamptz NOT NULL,
	node int REFERENCES nodes ON DELETE CASCADE, -- who has used it
	request text, proof text, certificate text, refusal text);
CREATE INDEX invitations_open ON invitations (by_node) WHERE request IS NOT NULL AND certificate IS NULL AND refusal IS NULL;

-- Which start and timeline this is: a promoted standby is another server (src/cluster/watch.h).
CREATE FUNCTION server() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
	SELECT to_hex((extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint) || '-' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
$$;

CREATE FUNCTION prove(node int, secret text) RETURNS void LANGUAGE plpgsql STABLE SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM 1 FROM nodes n WHERE n.node = prove.node AND n.secret_sha256 = sha256(convert_to(secret, 'UTF8'));
	IF NOT FOUND THEN
		RAISE EXCEPTION 'node %: there is no such node, or its secret is another', node USING ERRCODE = 'CL001',
			HINT = 'Let the node join again with an invitation.';
	END IF;
END $$;

-- Whether the epoch is the node's; if so, nobody takes it away until the transaction ends.
CREATE FUNCTION hold(node int, epoch bigint) RETURNS boolean LANGUAGE plpgsql SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM 1 FROM beats b WHERE b.node = hold.node AND b.epoch = hold.epoch AND b.epoch > 0 FOR KEY SHARE;
	RETURN FOUND;
END $$;

-- For the owner alone: a new node, with its tags, none of which an other has.
CREATE FUNCTION add_node(address text, secret text, tags int[], name text DEFAULT NULL) RETURNS int LANGUAGE plpgsql SET search_path = cluster, pg_temp AS $$
DECLARE
	added int;
BEGIN
	IF length(secret) < 32 THEN
		RAISE EXCEPTION 'secret: has % letters, 32 are the least', length(secret) USING ERRCODE = 'CL002';
	END IF;
	INSERT INTO nodes (address, secret_sha256, name) VALUES (add_node.address, sha256(convert_to(secret, 'UTF8')), add_node.name)
		RETURNING nodes.node INTO added;
	INSERT INTO beats (node) VALUES (added);
	INSERT INTO node_tags (tag, node) SELECT t, added FROM unnest(tags) t;
	UPDATE cluster SET directory_number = directory_number + 1;
	RETURN added;
END $$;

-- What a member asks first of any database: whether it is its cluster's, and whether the two understand each other. The clock is for people, as skew is told.
CREATE FUNCTION hello(OUT cluster_id text, OUT number int, OUT least_member int, OUT fence_after_ms bigint, OUT lost_after_ms bigint, OUT certificate text,
	OUT at_us bigint) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
	SELECT c.cluster_id, v.number, v.least_member, c.fence_after_ms, c.lost_after_ms, c.certificate, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
		FROM version v LEFT JOIN cluster c USING (one)
$$;

-- A node lets another in: who knows the key may join once, in this time. Those that nobody has used go with their time.
CREATE FUNCTION invite(node int, secret text, invitation text, key_sha256 text, lifetime_s int) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(invite.node, secret);
	IF lifetime_s NOT BETWEEN 1 AND 604800 THEN
		RAISE EXCEPTION 'lifetime_s: % is not between 1 and 604800', lifetime_s USING ERRCODE = 'CL002';
	END IF;
	DELETE FROM invitations i WHERE i.expires_at < now() - interval '7 days' AND i.node IS NULL;
	IF (SELECT count(*) FROM invitations i WHERE i.by_node = invite.node AND i.node IS NULL) >= 1000 THEN
		RAISE EXCEPTION 'this node has 1000 invitations that nobody has used' USING ERRCODE = 'CL002';
	END IF;
	INSERT INTO invitations (invitation, key_sha256, by_node, expires_at)
		VALUES (invite.invitation, decode(invite.key_sha256, 'hex'), invite.node, now() + lifetime_s * interval '1 second');
END $$;

-- A new node, of who has an invitation. Said again with the same secret it gives the same node: its answer may have been lost.
CREATE FUNCTION use_invitation(invitation text, key text, name text, address text, secret text, tags int[], request text, proof text) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	i invitations;
BEGIN
	SELECT * INTO i FROM invitations x WHERE x.invitation = use_invitation.invitation AND x.key_sha256 = sha256(convert_to(key, 'UTF8')) FOR UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'there is no such invitation' USING ERRCODE = 'CL004';
	END IF;
	IF i.node IS NOT NULL THEN
		PERFORM 1 FROM nodes n WHERE n.node = i.node AND n.secret_sha256 = sha256(convert_to(use_invitation.secret, 'UTF8'));
		IF FOUND THEN
			RETURN i.node;
		END IF;
		RAISE EXCEPTION 'the invitation was used already' USING ERRCODE = 'CL005';
	END IF;
	IF i.expires_at < clock_timestamp() THEN
		RAISE EXCEPTION 'the invitation has expired' USING ERRCODE = 'CL006';
	END IF;
	IF coalesce(cardinality(tags), 0) <> 16 OR length(request) > 8192 OR length(proof) > 128 THEN
		RAISE EXCEPTION 'tags, request, proof: not as a node writes them' USING ERRCODE = 'CL002';
	END IF;
	i.node := add_node(address, secret, tags, name);
	UPDATE invitations x SET node = i.node, request = use_invitation.request, proof = use_invitation.proof WHERE x.invitation = i.invitation;
	RETURN i.node;
END $$;

-- What has become of its request: both NULL while nobody has looked at it.
CREATE FUNCTION certificate_of(node int, secret text, OUT certificate text, OUT refusal text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(certificate_of.node, secret);
	SELECT i.certificate, i.refusal INTO certificate, refusal FROM invitations i WHERE i.node = certificate_of.node;
END $$;

-- The requests that a node's own invitations have brought, and its word on one.
CREATE FUNCTION requests(node int, secret text) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(requests.node, secret);
	RETURN (SELECT jsonb_agg(jsonb_build_object('invitation', i.invitation, 'name', n.name, 'address', n.address, 'request', i.request, 'proof', i.proof))
		FROM (SELECT * FROM invitations x WHERE x.by_node = requests.node AND x.request IS NOT NULL AND x.certificate IS NULL AND x.refusal IS NULL LIMIT 16) i
		JOIN nodes n ON n.node = i.node);
END $$;

CREATE FUNCTION certify(node int, secret text, invitation text, certificate text, refusal text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(certify.node, secret);
	UPDATE invitations i SET certificate = certify.certificate, refusal = certify.refusal WHERE i.invitation = certify.invitation
		AND i.by_node = certify.node AND i.request IS NOT NULL AND i.certificate IS NULL AND i.refusal IS NULL;
	RETURN FOUND;
END $$;

-- All nodes. How long ago each was heard of is by this server's clock, for people.
CREATE FUNCTION directory(node int, secret text) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(directory.node, secret);
	RETURN (SELECT jsonb_build_object('number', (SELECT c.directory_number FROM cluster c), 'nodes', coalesce(jsonb_agg(jsonb_build_object(
		'node', n.node, 'name', n.name, 'address', n.address, 'epoch', b.epoch, 'is_claimed', n.is_claimed, 'is_lost', n.is_lost,
		'seen_ms_ago', (extract(epoch FROM clock_timestamp() - b.seen_at) * 1000)::bigint, 'figures', b.figures,
		'tags', (SELECT jsonb_agg(t.tag) FROM node_tags t WHERE t.node = n.node)) ORDER BY n.node), '[]'))
		FROM nodes n JOIN beats b USING (node));
END $$;

-- What the database has of a node that has nothing itself. The caller holds its beat FOR UPDATE.
CREATE FUNCTION free_all(of_node int) RETURNS void LANGUAGE plpgsql SET search_path = cluster, pg_temp AS $$
DECLARE
	l record;
BEGIN
	FOR l IN SELECT * FROM leases WHERE node = of_node ORDER BY project_id, what LOOP -- in order: two that do this do not lock each other out
		UPDATE quotas q SET leased = q.leased - l.amount WHERE q.project_id = l.project_id AND q.what = l.what;
	END LOOP;
	DELETE FROM leases WHERE node = of_node;
	DELETE FROM names WHERE names.node = of_node;
END $$;

-- Follows the epoch that it names, so a join that is late does nothing. The new epoch; 0: not done. Fresh: the node has nothing, and what is known of it is free.
CREATE FUNCTION join_node(node int, secret text, epoch bigint, number bigint, is_fresh boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(join_node.node, secret);
	PERFORM 1 FROM beats b WHERE b.node = join_node.node AND b.epoch = join_node.epoch FOR UPDATE;
	IF NOT FOUND THEN
		RETURN 0;
	END IF;
	UPDATE beats b SET epoch = b.epoch + 1, number = join_node.number, seen_at = clock_timestamp() WHERE b.node = join_node.node;
	UPDATE nodes n SET name_number = 0, is_claimed = false, is_lost = false WHERE n.node = join_node.node;
	IF is_fresh THEN
		PERFORM free_all(join_node.node);
	END IF;
	UPDATE leases l SET number = 0 WHERE l.node = join_node.node;
	RETURN join_node.epoch + 1;
END $$;

-- Its own epoch, for a node that has forgotten it, and its leases as they were left.
CREATE FUNCTION epoch_of(node int, secret text) RETURNS bigint LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(epoch_of.node, secret);
	RETURN (SELECT b.epoch FROM beats b WHERE b.node = epoch_of.node);
END $$;

-- Said without waiting for the disk. Its answer tells of the three nodes behind it, which projects want back what is not spent, how many requests for certificates
-- wait for it, whether the directory has changed, and this server's clock.
CREATE FUNCTION beat(node int, secret text, epoch bigint, number bigint, figures jsonb, OUT is_taken boolean, OUT server text, OUT watched jsonb,
	OUT wanted jsonb, OUT n_requests int, OUT directory_number bigint, OUT at_us bigint) LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp SET synchronous_commit = off AS $$
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
	at_us := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
END $$;

-- The whole amount that the node has from now on; NULL: an old epoch or number, and nothing was done. Between needed and total, an eighth of what is left is given.
CREATE FUNCTION lease(node int, secret text, epoch bigint, project_id text, what text, number bigint, total bigint, needed bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	q quotas;
	has bigint := 0;
	last bigint := 0;
	left_ bigint;
	more bigint;
BEGIN
	PERFORM prove(lease.node, secret);
	IF total < 0 OR needed < 0 OR number < 1 THEN
		RAISE EXCEPTION 'total, needed, number: % % %: must not be below 0, 0, 1', total, needed, number USING ERRCODE = 'CL002';
	END IF;
	IF NOT hold(lease.node, lease.epoch) THEN
		RETURN NULL;
	END IF;
	SELECT * INTO q FROM quotas x WHERE x.project_id = lease.project_id AND x.what = lease.what FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'project_id, what: % has no quota of %', project_id, what USING ERRCODE = 'CL003';
	END IF;
	SELECT l.amount, l.number INTO has, last FROM leases l WHERE l.node = lease.node AND l.project_id = q.project_id AND l.what = q.what;
	IF NOT FOUND THEN
		has := 0;
		last := 0;
	END IF;
	IF number <= last THEN
		RETURN NULL;
	END IF;
	IF total > has THEN
		left_ := greatest(q."limit" - q.leased, 0);
		more := least(greatest(lease.needed - has, 0), left_);
		left_ := left_ - more;
		more := more + least(greatest(total - has - more, 0), left_ / 8);
		total := has + more;
		UPDATE quotas x SET is_wanted = total < lease.needed WHERE x.project_id = q.project_id AND x.what = q.what AND x.is_wanted <> (total < lease.needed);
	END IF;
	UPDATE quotas x SET leased = x.leased + total - has WHERE x.project_id = q.project_id AND x.what = q.what AND total <> has;
	INSERT INTO leases (project_id, what, node, amount, number) VALUES (q.project_id, q.what, lease.node, total, lease.number)
		ON CONFLICT ON CONSTRAINT leases_pkey DO UPDATE SET amount = excluded.amount, number = excluded.number;
	RETURN total;
END $$;

-- 'ok', 'taken' and by whom, or 'stale': an old epoch or number.
CREATE FUNCTION take_name(node int, secret text, epoch bigint, number bigint, project_id text, name text, sandbox_id text, OUT result text, OUT holder text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(take_name.node, secret);
	result := 'stale';
	IF NOT hold(take_name.node, take_name.epoch) THEN
		RETURN;
	END IF;
	UPDATE nodes n SET name_number = take_name.number WHERE n.node = take_name.node AND n.name_number < take_name.number;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	INSERT INTO names VALUES (take_name.project_id, take_name.name, take_name.sandbox_id, take_name.node) ON CONFLICT DO NOTHING;
	SELECT x.sandbox_id INTO holder FROM names x WHERE x.project_id = take_name.project_id AND x.name = take_name.name;
	result := CASE WHEN holder = take_name.sandbox_id THEN 'ok' ELSE 'taken' END;
END $$;

CREATE FUNCTION free_name(node int, secret text, epoch bigint, number bigint, project_id text, name text, sandbox_id text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(free_name.node, secret);
	IF NOT hold(free_name.node, free_name.epoch) THEN
		RETURN false;
	END IF;
	UPDATE nodes n SET name_number = greatest(n.name_number, free_name.number) WHERE n.node = free_name.node;
	DELETE FROM names x WHERE x.project_id = free_name.project_id AND x.name = free_name.name AND x.sandbox_id = free_name.sandbox_id
		AND x.node = free_name.node;
	RETURN true;
END $$;

-- Whether the beat that was seen is still the newest, on this server; if so, it stays so until the transaction ends.
CREATE FUNCTION is_as_seen(of_node int, of_epoch bigint, of_number bigint, of_server text) RETURNS boolean
LANGUAGE plpgsql SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM 1 FROM beats b WHERE b.node = of_node AND b.epoch = of_epoch AND b.number = of_number AND b.epoch > 0 FOR UPDATE;
	RETURN FOUND AND of_server = server() AND NOT (SELECT n.is_lost FROM nodes n WHERE n.node = of_node);
END $$;

-- A node that was silent for long enough (src/cluster/watch.h) is fenced: its epoch is over. Once: each new epoch begins the count of those who watch anew.
CREATE FUNCTION claim(node int, secret text, epoch bigint, of_node int, of_epoch bigint, of_number bigint, of_server text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(claim.node, secret);
	IF claim.node = of_node OR NOT hold(claim.node, claim.epoch) OR NOT is_as_seen(of_node, of_epoch, of_number, of_server) THEN
		RETURN false;
	END IF;
	UPDATE beats b SET epoch = b.epoch + 1 FROM nodes n WHERE b.node = of_node AND n.node = of_node AND NOT n.is_claimed;
	UPDATE nodes n SET is_claimed = true WHERE n.node = of_node;
	RETURN true;
END $$;

-- It was silent for `lost_after`, too: what it had is free.
CREATE FUNCTION lose(node int, secret text, epoch bigint, of_node int, of_epoch bigint, of_number bigint, of_server text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(lose.node, secret);
	IF lose.node = of_node OR NOT hold(lose.node, lose.epoch) OR NOT is_as_seen(of_node, of_epoch, of_number, of_server) THEN
		RETURN false;
	END IF;
	UPDATE beats b SET epoch = b.epoch + 1 WHERE b.node = of_node;
	UPDATE nodes n SET is_lost = true WHERE n.node = of_node;
	PERFORM free_all(of_node);
	RETURN true;
END $$;

-- Nobody may do what is not said here.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA cluster FROM PUBLIC;
DO $$
BEGIN
	IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'cloche_node') THEN -- else it is of another cluster on this server
		CREATE ROLE cloche_node NOLOGIN;
	END IF;
END $$;
GRANT USAGE ON SCHEMA cluster TO cloche_node;
GRANT EXECUTE ON FUNCTION hello, join_node, epoch_of, beat, lease, take_name, free_name, claim, lose, invite, use_invitation, certificate_of, requests, certify,
	directory TO cloche_node;
