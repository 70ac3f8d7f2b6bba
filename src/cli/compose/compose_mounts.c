// SPDX-License-Identifier: Apache-2.0
/*
 * What is mounted into a service's sandbox. A volume of the file is a volume; a directory or a file
 * beside it is copied in; what has no source, and tmpfs, are directories that go with the sandbox.
 */
#include "cli/compose/compose_take.h"

#include <string.h>

struct mount {
	char *kind, *source, *target;
	bool is_read_only;
};

static void mount_done(struct mount *m)
{
	free(m->kind);
	free(m->source);
	free(m->target);
}

static bool is_path(const char *source)
{
	return *source == '/' || *source == '.' || *source == '~' || *source == '\\';
}

/* "SOURCE:TARGET", "SOURCE:TARGET:MODES", "TARGET" */
static int split_mount(struct compose_reader *r, const struct yaml_value *v, struct mount *m,
                       struct err *err)
{
	static const char *const modes[] = {"ro",         "rw",        "z",      "Z", "cached",
	                                    "consistent", "delegated", "nocopy", NULL};
	auto_free char *text = NULL;
	char *second, *third, *save;
	int result = compose_text(r, v, &text, err);

	if (result < 0)
		return result;
	second = strchr(text, ':');
	third = second ? strchr(second + 1, ':') : NULL;
	if (second)
		*second++ = '\0';
	if (third)
		*third++ = '\0';
	for (char *mode = third; mode; mode = save) {
		save = strchr(mode, ',');
		if (save)
			*save++ = '\0';
		if (!compose_is_among(mode, modes))
			return compose_wrong(r, v, err, "'%.40s' is no mode of a volume: ro or rw",
			                     mode);
		m->is_read_only = m->is_read_only || strcmp(mode, "ro") == 0;
	}
	m->kind = xstrdup(!second ? "anonymous" : is_path(text) ? "bind" : "volume");
	m->source = second ? xstrdup(text) : NULL;
	m->target = xstrdup(second ? second : text);
	return 0;
}

static int read_mount(struct compose_reader *r, const struct yaml_value *v, struct mount *m,
                      struct err *err)
{
	static const char *const known[] = {"type",   "source", "target",      "read_only", "tmpfs",
	                                    "volume", "bind",   "consistency", NULL};
	const struct yaml_value *type = yaml_get(v, "type"), *source = yaml_get(v, "source"),
				*target = yaml_get(v, "target"), *flag = yaml_get(v, "read_only");
	int result = compose_check_keys(r, v, known, err);

	if (result < 0)
		return result;
	if (!type || !target)
		return compose_wrong(r, v, err, "should have type and target");
	result = compose_text(r, type, &m->kind, err);
	if (result == 0)
		result = compose_text(r, target, &m->target, err);
	if (result == 0 && source)
		result = compose_text(r, source, &m->source, err);
	if (result == 0 && flag)
		result = compose_flag(r, flag, &m->is_read_only, err);
	return result;
}

static int put_volume(struct compose_reader *r, const struct yaml_value *v, const struct mount *m,
                      json_t *to, struct err *err)
{
	if (!json_object_get(r->volumes, m->source))
		return compose_wrong(r, v, err,
		                     "'%.60s' is not among the file's volumes; a file or directory "
		                     "begins with ./",
		                     m->source);
	return json_array_append_new(json_object_get(to, "volumes"),
	                             json_pack("{s:s, s:s, s:b}", "volume", m->source, "path",
	                                       m->target, "read_only", m->is_read_only));
}

static int put_mount(struct compose_reader *r, const struct yaml_value *v, const struct mount *m,
                     json_t *to, struct err *err)
{
	bool is_bind = strcmp(m->kind, "bind") == 0, is_volume = strcmp(m->kind, "volume") == 0;

	if (*m->target != '/' || !m->target[1])
		return compose_wrong(r, v, err, "'%.80s' should be an absolute path inside",
		                     m->target);
	if (is_volume && m->source)
		return put_volume(r, v, m, to, err);
	if (is_volume || strcmp(m->kind, "tmpfs") == 0 || strcmp(m->kind, "anonymous") == 0)
		return json_array_append_new(json_object_get(to, "directories"),
		                             json_string(m->target));
	if (!is_bind || !m->source)
		return compose_wrong(
			r, v, err,
			"'%.40s' should be bind, volume or tmpfs, and a bind has a source",
			m->kind);
	return json_array_append_new(json_object_get(to, "files"),
	                             json_pack("{s:s, s:s, s:i}", "source", m->source, "target",
	                                       m->target, "line", (int)v->line));
}

static void make_lists(json_t *to)
{
	static const char *const lists[] = {"volumes", "directories", "files"};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (!json_object_get(to, lists[i]))
			(void)json_object_set_new(to, lists[i], json_array());
}

int take_volumes(struct compose_reader *r, const struct yaml_value *v, json_t *to, struct err *err)
{
	int result = 0;

	make_lists(to);
	if (v->kind != YAML_LIST && !v->is_null)
		return compose_wrong(r, v, err, "should be a list");
	for (size_t i = 0; result == 0 && i < v->n; i++) {
		struct mount m = {0};

		result = v->items[i]->kind == YAML_MAP ? read_mount(r, v->items[i], &m, err)
		                                       : split_mount(r, v->items[i], &m, err);
		if (result == 0)
			result = put_mount(r, v->items[i], &m, to, err);
		mount_done(&m);
	}
	return result;
}

int take_tmpfs(struct compose_reader *r, const struct yaml_value *v, json_t *to, struct err *err)
{
	auto_json json_t *list = NULL;
	int result = compose_texts(r, v, &list, err);
	size_t i;
	const json_t *one;

	make_lists(to);
	json_array_foreach(list, i, one)
	{
		const char *path = json_string_value(one);

		if (*path != '/')
			return compose_wrong(r, v, err, "'%.80s' should be an absolute path", path);
		(void)json_array_append_new(json_object_get(to, "directories"),
		                            json_stringn(path, strcspn(path, ":")));
	}
	return result;
}
