-- SPDX-License-Identifier: Apache-2.0
-- Step 6 of a cluster's schema: nodes' certificates are renewed by way of the database (src/member/papers/renewal.h). It only adds: members that know step 5 go on.
SET search_path = cluster, pg_temp;

-- What a node asks for: a certificate that follows the one it has.
CREATE TABLE renewals (
	node int PRIMARY KEY REFERENCES nodes ON DELETE CASCADE,
	request text NOT NULL CHECK (length(request) <= 16384));

-- Each answering node has a row of its own: the node that asked knows the right one by its signature, and one that answers nonsense stands in nobody's way.
CREATE TABLE renewal_answers (
	node int REFERENCES renewals ON DELETE CASCADE,
	by_node int REFERENCES nodes ON DELETE CASCADE,
	certificate text CHECK (length(certificate) <= 8192),
	refusal text CHECK (length(refusal) <= 1000),
	PRIMARY KEY (node, by_node));

-- What the node asks for from now on. Said again with the same text it changes nothing. The answers to another one go.
CREATE FUNCTION ask_renewal(node int, secret text, request text) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	has text;
BEGIN
	PERFORM prove(ask_renewal.node, secret);
	SELECT r.request INTO has FROM renewals r WHERE r.node = ask_renewal.node FOR UPDATE;
	IF has IS DISTINCT FROM ask_renewal.request THEN
		DELETE FROM renewals r WHERE r.node = ask_renewal.node;
		INSERT INTO renewals VALUES (ask_renewal.node, ask_renewal.request);
	END IF;
	RETURN (SELECT jsonb_build_object('answers', coalesce(jsonb_agg(jsonb_build_object('node', a.by_node, 'certificate', a.certificate, 'refusal', a.refusal)), '[]'))
		FROM (SELECT * FROM renewal_answers x WHERE x.node = ask_renewal.node ORDER BY x.certificate IS NULL, x.by_node LIMIT 16) a);
END $$;

-- It has what it asked for.
CREATE FUNCTION end_renewal(node int, secret text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(end_renewal.node, secret);
	DELETE FROM renewals r WHERE r.node = end_renewal.node;
END $$;

-- For a node with the authority's key: those that it has not answered.
CREATE FUNCTION renewals_open(node int, secret text) RETURNS jsonb LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(renewals_open.node, secret);
	RETURN (SELECT jsonb_build_object('renewals', coalesce(jsonb_agg(jsonb_build_object('node', r.node, 'name', n.name, 'request', r.request)), '[]'))
		FROM (SELECT * FROM renewals x WHERE NOT EXISTS (SELECT 1 FROM renewal_answers a WHERE a.node = x.node AND a.by_node = renewals_open.node) LIMIT 16) r
		JOIN nodes n ON n.node = r.node);
END $$;

-- Its word on one, as long as that is asked for: digest is the request's SHA-256. Nobody answers for another node.
CREATE FUNCTION answer_renewal(node int, secret text, of_node int, digest text, certificate text, refusal text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(answer_renewal.node, secret);
	PERFORM 1 FROM renewals r WHERE r.node = of_node AND sha256(convert_to(r.request, 'UTF8')) = decode(digest, 'hex') FOR KEY SHARE;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	INSERT INTO renewal_answers VALUES (of_node, answer_renewal.node, answer_renewal.certificate, answer_renewal.refusal)
		ON CONFLICT ON CONSTRAINT renewal_answers_pkey DO UPDATE SET certificate = excluded.certificate, refusal = excluded.refusal;
	RETURN true;
END $$;

UPDATE version SET number = 6;

-- Nobody may do what is not said here.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA cluster FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ask_renewal, end_renewal, renewals_open, answer_renewal TO cloche_node;
