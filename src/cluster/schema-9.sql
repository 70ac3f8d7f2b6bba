-- SPDX-License-Identifier: Apache-2.0
-- A step of a cluster's schema: secrets and webhooks for all nodes. It only adds: members that know the steps before it alone go on.
SET search_path = cluster, pg_temp;

-- Records of the kinds 'secret' and 'webhook' are {version, changed_us, sealed}. What is sealed only gateways can open, and it says of itself what it is: this database
-- can neither read nor make one. Who has an older state is told of the newer one; of two states with the same version, the one with the later time holds.
ALTER TABLE records DROP CONSTRAINT records_kind_check,
	ADD CONSTRAINT records_kind_check CHECK (kind IN ('project', 'key', 'quota', 'image', 'secret', 'webhook'));
ALTER TABLE records DROP CONSTRAINT records_record_check,
	ADD CONSTRAINT records_record_check CHECK (octet_length(record::text) <= CASE kind WHEN 'image' THEN 32768 WHEN 'secret' THEN 36864 WHEN 'webhook' THEN 16384 ELSE 8192 END);
CREATE INDEX records_sealed ON records (project_id, kind) WHERE kind IN ('secret', 'webhook');

-- {result}: 'ok', also said again; 'older' {version, changed_us}: the state that is here is later, or has the same version and this one is new (not is_said again); 'taken': the id is another project's; 'no_project'; 'full'; 'stale'.
-- A project has 512 secrets and 32 webhooks at most; nodes refuse more than half of that. Of removed ones the newest 1000 stay, so that nodes hear of them.
CREATE FUNCTION put_sealed(node int, secret text, epoch bigint, kind text, id text, project_id text, version bigint, changed_us bigint, is_gone boolean, is_said boolean, sealed text)
RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	c changes;
	old records;
	has_version bigint := 0;
	has_changed bigint := 0;
	n int;
	dropped int := 0;
BEGIN
	PERFORM prove(put_sealed.node, secret);
	IF NOT hold(put_sealed.node, epoch) THEN
		RETURN '{"result": "stale"}';
	END IF;
	IF put_sealed.kind NOT IN ('secret', 'webhook') OR put_sealed.version <= 0 OR put_sealed.changed_us <= 0 THEN
		RAISE EXCEPTION 'no such kind of sealed records' USING ERRCODE = '22023';
	END IF;
	SELECT * INTO c FROM changes FOR NO KEY UPDATE;
	SELECT * INTO old FROM records r WHERE r.kind = put_sealed.kind AND r.id = put_sealed.id;
	IF FOUND THEN
		IF old.project_id <> put_sealed.project_id THEN
			RETURN '{"result": "taken"}';
		END IF;
		IF jsonb_typeof(old.record->'version') = 'number' AND jsonb_typeof(old.record->'changed_us') = 'number' THEN
			has_version := (old.record->>'version')::bigint;
			has_changed := (old.record->>'changed_us')::bigint;
		END IF; -- else somebody has written it who should not: it is no state
		IF (has_version, has_changed) = (put_sealed.version, put_sealed.changed_us) THEN
			RETURN '{"result": "ok"}';
		ELSIF (has_version, has_changed) > (put_sealed.version, put_sealed.changed_us) OR (has_version = put_sealed.version AND NOT is_said) THEN
			RETURN jsonb_build_object('result', 'older', 'version', has_version, 'changed_us', has_changed);
		END IF;
	ELSIF c.n_records >= 200000 THEN
		RETURN '{"result": "full"}';
	END IF;
	PERFORM 1 FROM records r WHERE r.kind = 'project' AND r.id = put_sealed.project_id AND NOT r.is_gone;
	IF NOT FOUND THEN
		RETURN '{"result": "no_project"}';
	END IF;
	IF put_sealed.is_gone THEN
		DELETE FROM records r WHERE r.kind = put_sealed.kind AND r.id IN (SELECT x.id FROM records x
			WHERE x.project_id = put_sealed.project_id AND x.kind = put_sealed.kind AND x.is_gone AND x.id <> put_sealed.id ORDER BY x.number DESC OFFSET 999);
		GET DIAGNOSTICS dropped = ROW_COUNT;
	ELSIF old.id IS NULL OR old.is_gone THEN
		SELECT count(*) INTO n FROM records r WHERE r.project_id = put_sealed.project_id AND r.kind = put_sealed.kind AND NOT r.is_gone;
		IF n >= (CASE put_sealed.kind WHEN 'secret' THEN 512 ELSE 32 END) THEN
			RETURN '{"result": "full"}';
		END IF;
	END IF;
	UPDATE changes x SET number = c.number + 1, n_records = x.n_records - dropped + CASE WHEN old.id IS NULL THEN 1 ELSE 0 END;
	INSERT INTO records VALUES (put_sealed.kind, put_sealed.id, put_sealed.project_id, NULL,
		jsonb_build_object('version', put_sealed.version, 'changed_us', put_sealed.changed_us, 'sealed', put_sealed.sealed), put_sealed.is_gone, c.number + 1, put_sealed.node)
		ON CONFLICT ON CONSTRAINT records_pkey DO UPDATE SET record = excluded.record, is_gone = excluded.is_gone, number = excluded.number, node = excluded.node;
	RETURN '{"result": "ok"}';
END $$;

UPDATE version SET number = 9;

-- Nobody may do what is not said here.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA cluster FROM PUBLIC;
GRANT EXECUTE ON FUNCTION put_sealed TO cloche_node;
