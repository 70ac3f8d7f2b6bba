-- SPDX-License-Identifier: Apache-2.0
-- Step 4 of a cluster's schema, behind schema-3.sql: templates for all nodes, the projects' keys of the store of objects, and how a node that joins gets the keys that
-- all nodes share. It only adds: members that know step 3 alone go on.
SET search_path = cluster, pg_temp;

-- A template is a record of the kind 'image'. Its id stands for project and name, so that a name has one row however often it is made anew and removed.
ALTER TABLE records DROP CONSTRAINT records_kind_check, ADD CONSTRAINT records_kind_check CHECK (kind IN ('project', 'key', 'quota', 'image'));
ALTER TABLE records DROP CONSTRAINT records_record_check,
	ADD CONSTRAINT records_record_check CHECK (octet_length(record::text) <= CASE kind WHEN 'image' THEN 32768 ELSE 8192 END);

-- The project's key, wrapped by one that the database never has. With its project it is gone, and what is stored under it can be read by nobody.
CREATE TABLE object_keys (project_id text COLLATE "C" PRIMARY KEY CHECK (length(project_id) BETWEEN 1 AND 64), wrapped text NOT NULL CHECK (length(wrapped) <= 256));
CREATE FUNCTION forget_object_key() RETURNS trigger LANGUAGE plpgsql SET search_path = cluster, pg_temp AS $$
BEGIN
	DELETE FROM object_keys k WHERE k.project_id = new.id;
	RETURN NULL;
END $$;
CREATE TRIGGER forget_object_key AFTER UPDATE OF is_gone ON records FOR EACH ROW WHEN (new.kind = 'project' AND new.is_gone) EXECUTE FUNCTION forget_object_key();

-- What all nodes share and the database may not read, on its way to one that joins.
ALTER TABLE invitations ADD COLUMN parcel text CHECK (length(parcel) <= 1024);
ALTER TABLE cluster ADD COLUMN has_object_keys boolean NOT NULL DEFAULT false;

CREATE FUNCTION keep_parcel(node int, secret text, invitation text, parcel text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(keep_parcel.node, secret);
	UPDATE invitations i SET parcel = NULL WHERE i.expires_at < now() AND i.node IS NULL AND i.parcel IS NOT NULL;
	UPDATE invitations i SET parcel = keep_parcel.parcel WHERE i.invitation = keep_parcel.invitation AND i.by_node = keep_parcel.node AND i.node IS NULL;
	RETURN FOUND;
END $$;

-- NULL: there was none, or the node has said that it has it.
CREATE FUNCTION parcel_of(node int, secret text) RETURNS text LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(parcel_of.node, secret);
	RETURN (SELECT i.parcel FROM invitations i WHERE i.node = parcel_of.node);
END $$;

CREATE FUNCTION drop_parcel(node int, secret text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(drop_parcel.node, secret);
	UPDATE invitations i SET parcel = NULL WHERE i.node = drop_parcel.node;
END $$;

-- Whether something may lie under this project: 'shared' is what all projects have.
CREATE FUNCTION is_project(id text) RETURNS boolean LANGUAGE sql STABLE SET search_path = cluster, pg_temp AS $$
	SELECT is_project.id = 'shared' OR EXISTS (SELECT 1 FROM records r WHERE r.kind = 'project' AND r.id = is_project.id AND NOT r.is_gone)
$$;

-- {wrapped}: the project's key; of those that come with one at the same time the first gives it. Without one: NULL, if there is none.
CREATE FUNCTION object_key(node int, secret text, epoch bigint, project_id text, wrapped text) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
BEGIN
	PERFORM prove(object_key.node, secret);
	IF wrapped IS NOT NULL AND hold(object_key.node, epoch) AND is_project(project_id) THEN
		INSERT INTO object_keys VALUES (object_key.project_id, object_key.wrapped) ON CONFLICT DO NOTHING;
	END IF;
	RETURN jsonb_build_object('wrapped', (SELECT k.wrapped FROM object_keys k WHERE k.project_id = object_key.project_id));
END $$;

-- A template for all nodes: {result, holder}. It takes the place of the one that it names, by template_id, or of none. 'taken': the name has another one by now;
-- 'no_project'; 'full'; 'stale'. Said again it is 'ok' again. was: those whose place was taken, the newest last; a node that has one of them drops it.
CREATE FUNCTION publish_template(node int, secret text, epoch bigint, id text, project_id text, replaces text, record jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	c changes;
	old records;
	was jsonb := '[]';
BEGIN
	PERFORM prove(publish_template.node, secret);
	IF NOT hold(publish_template.node, epoch) THEN
		RETURN '{"result": "stale"}';
	END IF;
	SELECT * INTO c FROM changes FOR NO KEY UPDATE;
	SELECT * INTO old FROM records r WHERE r.kind = 'image' AND r.id = publish_template.id;
	IF FOUND THEN
		was := coalesce(old.record->'was', '[]');
		IF old.project_id <> publish_template.project_id THEN
			RETURN jsonb_build_object('result', 'taken', 'holder', old.record->>'template_id');
		ELSIF was ? (publish_template.record->>'template_id') OR (old.is_gone AND old.record->>'template_id' = publish_template.record->>'template_id') THEN
			RETURN jsonb_build_object('result', 'gone', 'holder', old.record->>'template_id'); -- it was removed or replaced meanwhile
		ELSIF old.record->>'template_id' <> publish_template.record->>'template_id' THEN
			IF NOT old.is_gone AND replaces IS DISTINCT FROM old.record->>'template_id' THEN
				RETURN jsonb_build_object('result', 'taken', 'holder', old.record->>'template_id');
			END IF;
			was := was || jsonb_build_array(old.record->>'template_id');
			IF jsonb_array_length(was) > 32 THEN
				was := was - 0;
			END IF;
		END IF;
	ELSIF c.n_records >= 200000 THEN
		RETURN '{"result": "full"}';
	END IF;
	IF NOT is_project(publish_template.project_id) THEN
		RETURN '{"result": "no_project"}';
	END IF;
	publish_template.record := publish_template.record || jsonb_build_object('was', was);
	IF old.id IS NOT NULL AND NOT old.is_gone AND old.record = publish_template.record THEN
		RETURN '{"result": "ok"}';
	END IF;
	UPDATE changes x SET number = c.number + 1, n_records = x.n_records + CASE WHEN old.id IS NULL THEN 1 ELSE 0 END;
	INSERT INTO records VALUES ('image', publish_template.id, publish_template.project_id, NULL, publish_template.record, false, c.number + 1, publish_template.node)
		ON CONFLICT ON CONSTRAINT records_pkey DO UPDATE SET record = excluded.record, is_gone = false, number = excluded.number, node = excluded.node;
	RETURN '{"result": "ok"}';
END $$;

-- It goes from all nodes, unless another one has its name by now.
CREATE FUNCTION remove_template(node int, secret text, epoch bigint, id text, template_id text) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = cluster, pg_temp AS $$
DECLARE
	c changes;
BEGIN
	PERFORM prove(remove_template.node, secret);
	IF NOT hold(remove_template.node, epoch) THEN
		RETURN '{"result": "stale"}';
	END IF;
	SELECT * INTO c FROM changes FOR NO KEY UPDATE;
	UPDATE records r SET is_gone = true, number = c.number + 1, node = remove_template.node
		WHERE r.kind = 'image' AND r.id = remove_template.id AND NOT r.is_gone AND r.record->>'template_id' = remove_template.template_id;
	IF FOUND THEN
		UPDATE changes x SET number = c.number + 1;
	END IF;
	RETURN '{"result": "ok"}';
END $$;

UPDATE version SET number = 4;

-- Nobody may do what is not said here.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA cluster FROM PUBLIC;
GRANT EXECUTE ON FUNCTION keep_parcel, parcel_of, drop_parcel, object_key, publish_template, remove_template TO cloche_node;
