// SPDX-License-Identifier: Apache-2.0
/* Volumes as a sandbox has them: which, where, and whether it may write. */
#include "sandbox/model/create_rules.h"
#include "sandbox/storage/storage.h"
#include "sandbox/storage/volume.h"

void volume_mount_shown(const char *id, const char *path, struct guest_volume *ret)
{
	*ret = (struct guest_volume){0};
	(void)snprintf(ret->path, sizeof(ret->path), "%s", path ? path : "/volume");
	(void)snprintf(ret->id, sizeof(ret->id), "%s", id);
}

bool volume_mounts_are_given(const struct sandbox *s)
{
	return s->volumes[0].id[0] != '\0';
}

static size_t count(const struct guest_volume places[VOLUMES_MAX])
{
	size_t n = 0;

	while (n < VOLUMES_MAX && places[n].id[0])
		n++;
	return n;
}

void volume_mounts_to_row(const struct sandbox *s, struct json_writer *w)
{
	json_open_array(w, "volumes");
	for (size_t i = 0; i < count(s->volumes); i++) {
		json_open_object(w, NULL);
		json_put_str(w, "id", s->volumes[i].id);
		json_put_str(w, "path", s->volumes[i].path);
		json_put_bool(w, "is_read_only", s->volumes[i].is_read_only != 0);
		json_close_object(w);
	}
	json_close_array(w);
}

int volume_mounts_from_row(const json_t *rows, struct sandbox *s)
{
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		const char *id = json_string_value(json_object_get(row, "id"));
		const char *path = json_string_value(json_object_get(row, "path"));
		struct guest_volume *place = &s->volumes[i];

		if (!id || !id_is_valid(id, "vo") || !path || volume_check_path(path))
			return -EBADMSG;
		(void)snprintf(place->id, sizeof(place->id), "%s", id);
		(void)snprintf(place->path, sizeof(place->path), "%s", path);
		place->is_read_only = json_is_true(json_object_get(row, "is_read_only"));
	}
	return 0;
}

void volume_mounts_to_json(const struct sandbox *s, struct json_writer *w)
{
	json_open_array(w, "volumes");
	for (size_t i = 0; i < count(s->volumes); i++) {
		const struct volume *v = volume_find(s->fleet, s->project_id, s->volumes[i].id);
		struct volume_facts facts = {0};

		if (v)
			volume_facts(v, &facts);
		json_open_object(w, NULL);
		json_put_str(w, "volume_id", s->volumes[i].id);
		json_put_str(w, "name", facts.name); /* null: it is gone */
		json_put_str(w, "path", s->volumes[i].path);
		json_put_bool(w, "read_only", s->volumes[i].is_read_only != 0);
		json_close_object(w);
	}
	json_close_array(w);
}

void sandbox_each_volume(const struct sandbox *s,
                         void (*fn)(const char *name, const char *path, bool is_read_only,
                                    void *arg),
                         void *arg)
{
	for (size_t i = 0; i < count(s->volumes); i++) {
		const struct volume *v = volume_find(s->fleet, s->project_id, s->volumes[i].id);
		struct volume_facts facts = {.name = ""};

		if (v)
			volume_facts(v, &facts);
		fn(facts.name, s->volumes[i].path, s->volumes[i].is_read_only != 0, arg);
	}
}

static int read_place(const struct fleet *fleet, const char *project_id, const json_t *wish,
                      const char *field, struct guest_volume *ret, struct err *err)
{
	const char *name = NULL, *path = NULL, *why;
	bool is_read_only = false;
	const struct json_field fields[] = {
		{"volume", JSON_FIELD_STRING, &name, true, .min = 1, .max = VOLUME_NAME_MAX},
		{"path", JSON_FIELD_STRING, &path, true, .min = 1, .max = VOLUME_PATH_SIZE - 1},
		{"read_only", JSON_FIELD_BOOL, &is_read_only},
	};
	const struct volume *v;
	struct volume_facts facts;
	int r = json_read(wish, field, fields, ARRAY_SIZE(fields), err);

	if (r < 0)
		return r;
	why = volume_check_path(path);
	if (why)
		return err_field(err, "volumes", "path '%s' %s", path, why);
	v = volume_find(fleet, project_id, name);
	if (!v) {
		(void)err_field(err, "volumes", "there is no volume '%s'", name);
		return err_hint(err, "make it first (`cloche volume create`)");
	}
	volume_facts(v, &facts);
	(void)snprintf(ret->id, sizeof(ret->id), "%s", facts.id);
	(void)snprintf(ret->path, sizeof(ret->path), "%s", path);
	ret->is_read_only = is_read_only;
	return 0;
}

static int check_overlap(const struct guest_volume places[VOLUMES_MAX], size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			if (volume_paths_overlap(places[i].path, places[k].path))
				return err_field(err, "volumes", "'%s' and '%s' lie in one place",
				                 places[k].path, places[i].path);
	return 0;
}

int volume_mounts_check(const struct fleet *fleet, const char *project_id,
                        const struct guest_volume places[VOLUMES_MAX], struct err *err)
{
	for (size_t i = 0; i < count(places); i++) {
		const struct volume *v = volume_find(fleet, project_id, places[i].id);
		struct volume_facts facts;

		if (!v)
			return err_set(err, ERR_NOT_FOUND, 0,
			               "volume %s, which is put at '%s', is gone", places[i].id,
			               places[i].path);
		volume_facts(v, &facts);
		if (!facts.has_one_writer || places[i].is_read_only || !facts.user ||
		    !volume_is_written_by(facts.user, facts.id))
			continue;
		(void)err_set(err, ERR_CONFLICT, 0, "volumes: sandbox %s writes to volume '%s'",
		              sandbox_id(facts.user), facts.name);
		return err_hint(err, "put it in read-only, or stop that sandbox first");
	}
	return 0;
}

bool volume_is_written_by(const struct sandbox *s, const char *id)
{
	for (size_t i = 0; i < VOLUMES_MAX; i++)
		if (strcmp(s->volumes[i].id, id) == 0 && !s->volumes[i].is_read_only)
			return true;
	return false;
}

int volume_mounts_read(const struct fleet *fleet, const char *project_id, const json_t *wishes,
                       uint32_t engine, struct guest_volume ret[VOLUMES_MAX], struct err *err)
{
	size_t n = json_array_size(wishes);
	int r = n > VOLUMES_MAX ? err_field(err, "volumes", "%d are the most", VOLUMES_MAX) : 0;

	if (r == 0 && n > 0)
		r = engine_refuse_without(engine_traits(engine)->has_volumes, engine, "volumes",
		                          err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		char field[32];

		(void)snprintf(field, sizeof(field), "volumes[%zu].", i);
		r = read_place(fleet, project_id, json_array_get(wishes, i), field, &ret[i], err);
	}
	if (r == 0)
		r = check_overlap(ret, n, err);
	return r < 0 ? r : volume_mounts_check(fleet, project_id, ret, err);
}

json_t *volume_mounts_describe(const struct sandbox *s)
{
	json_t *wishes = json_array();

	for (size_t i = 0; i < count(s->volumes); i++)
		(void)json_array_append_new(wishes,
		                            json_pack("{s:s, s:s, s:b}", "volume", s->volumes[i].id,
		                                      "path", s->volumes[i].path, "read_only",
		                                      (int)s->volumes[i].is_read_only));
	return wishes;
}
