// SPDX-License-Identifier: Apache-2.0
/* What a service of a Compose file may have: the table is at the end. */
#include "cli/compose/compose_read.h"

#include "base/parse.h"

#include <stdio.h>
#include <string.h>

#define PORTS_MAX  32
#define PORT_MOST  65535
#define MILLI_CPUS 1000000

static int take_text(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                     struct err *err)
{
	auto_free char *text = NULL;
	int result = compose_text(r, v, &text, err);

	if (result == 0 && (!*text || compose_put_text(to, r->field, text) < 0))
		return compose_wrong(r, v, err, "should not be empty");
	return result;
}

/* It means nothing here, and nothing is weaker without it. */
static int take_nothing(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                        struct err *err)
{
	(void)r, (void)v, (void)to, (void)err;
	return 0;
}

/* false is what a sandbox has anyway. */
static int take_false(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                      struct err *err)
{
	bool value;
	int result = compose_flag(r, v, &value, err);

	(void)to;
	return result == 0 && value ? compose_wrong(r, v, err, "is not taken") : result;
}

static int take_words(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                      struct err *err)
{
	json_t *words;
	int result = v->is_null ? -ENOENT : compose_words(r, v, &words, err);

	if (result == -ENOENT)
		return 0;
	return result == 0 ? json_object_set_new(to, r->field, words) : result;
}

static int take_pull(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                     struct err *err)
{
	auto_free char *text = NULL;
	int result = compose_text(r, v, &text, err);

	if (result < 0)
		return result;
	if (strcmp(text, "always") == 0)
		return compose_put_text(to, "pull", "always");
	if (strcmp(text, "missing") == 0 || strcmp(text, "if_not_present") == 0)
		return compose_put_text(to, "pull", "missing");
	if (strcmp(text, "build") == 0)
		return 0;
	return compose_wrong(r, v, err, "'%.40s' should be always, missing or build", text);
}

/* x-cloche: what only cloche has. */
static int take_own(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                    struct err *err)
{
	static const struct compose_field fields[] = {{"template", take_text, NULL}};
	auto_free char *where = xstrdup(r->path);

	return compose_read_map(r, where, v, fields, ARRAY_SIZE(fields), to, err);
}

static int take_args(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                     struct err *err)
{
	json_t *args = json_object();
	int result = json_object_set_new(to, "args", args);

	return result == 0 ? compose_pairs(r, v, args, err) : result;
}

static int take_build(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                      struct err *err)
{
	static const struct compose_field fields[] = {
		{"context", take_text, NULL},
		{"dockerfile", take_text, NULL},
		{"target", take_text, NULL},
		{"args", take_args, NULL},
		{"labels", take_nothing, NULL},
		{"pull", take_nothing, NULL},
		{"no_cache", take_nothing, NULL},
		{"cache_from", take_nothing, NULL},
		{"cache_to", take_nothing, NULL},
		{"tags", take_nothing, NULL},
		{"dockerfile_inline", NULL, "put it into a file, and name that as dockerfile"},
		{"additional_contexts", NULL, "put what it copies into the context"},
		{"secrets", NULL, "a build has no secrets: fetch before it, and copy the files in"},
		{"ssh", NULL, "a build has no SSH agent: fetch before it, and copy the files in"},
		{"network", NULL, "a build reaches what the operator's settings give to builds"},
		{"privileged", NULL, "a build has no rights over the host"},
		{"platforms", NULL, "it is built for this machine: leave it out"},
	};
	auto_free char *where = xstrdup(r->path);
	json_t *build = json_object();
	int result = json_object_set_new(to, "build", build);

	if (result < 0)
		return result;
	if (v->kind == YAML_TEXT) {
		r->field = "context";
		return take_text(r, v, build, err);
	}
	result = compose_read_map(r, where, v, fields, ARRAY_SIZE(fields), build, err);
	if (result == 0 && !json_object_get(build, "context"))
		return compose_put_text(build, "context", ".");
	return result;
}

static int take_environment(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                            struct err *err)
{
	json_t *env = json_object();
	int result = json_object_set_new(to, "environment", env);

	return result == 0 ? compose_pairs(r, v, env, err) : result;
}

static int take_env_file(struct compose_reader *r, const struct yaml_value *v, json_t *list,
                         struct err *err)
{
	const struct yaml_value *path = v, *required = NULL;
	auto_free char *text = NULL;
	bool is_required = true;
	int result = 0;

	if (v->kind == YAML_MAP) {
		path = yaml_get(v, "path");
		required = yaml_get(v, "required");
		if (!path || v->n != (size_t)(required ? 2 : 1))
			return compose_wrong(r, v, err, "should have path, and may have required");
	}
	if (required)
		result = compose_flag(r, required, &is_required, err);
	if (result == 0)
		result = compose_text(r, path, &text, err);
	if (result < 0)
		return result;
	return json_array_append_new(list, json_pack("{s:s, s:b, s:i}", "path", text, "required",
	                                             is_required, "line", (int)v->line));
}

static int take_env_files(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                          struct err *err)
{
	json_t *list = json_array();
	int result = json_object_set_new(to, "env_files", list);

	if (result == 0 && v->kind != YAML_LIST)
		return take_env_file(r, v, list, err);
	for (size_t i = 0; result == 0 && i < v->n; i++)
		result = take_env_file(r, v->items[i], list, err);
	return result;
}

static int take_condition(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                          struct err *err)
{
	auto_free char *text = NULL;
	int result = compose_text(r, v, &text, err);

	if (result < 0)
		return result;
	if (strcmp(text, "service_started") != 0 && strcmp(text, "service_healthy") != 0 &&
	    strcmp(text, "service_completed_successfully") != 0)
		return compose_wrong(r, v, err,
		                     "'%.60s' should be service_started, service_healthy or "
		                     "service_completed_successfully",
		                     text);
	return compose_put_text(to, "condition", text);
}

static int take_true(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                     struct err *err)
{
	bool value;
	int result = compose_flag(r, v, &value, err);

	(void)to;
	return result == 0 && !value ? compose_wrong(r, v, err, "is not taken") : result;
}

static int take_depends(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                        struct err *err)
{
	static const struct compose_field fields[] = {
		{"condition", take_condition, NULL},
		{"required", take_true, "what a service waits for must be there: leave it out"},
		{"restart", take_false,
	         "a service is not started again after another: leave it out"},
	};
	json_t *all = json_object_get(to, "depends_on");
	auto_free char *where = xstrdup(r->path);
	int result = 0;

	if (!all) {
		all = json_object();
		(void)json_object_set_new(to, "depends_on", all);
	}
	if (v->kind != YAML_MAP) {
		auto_json json_t *names = NULL;
		size_t i;
		const json_t *name;

		result = compose_texts(r, v, &names, err);
		json_array_foreach(names, i, name)(void) json_object_set_new(
			all, json_string_value(name), json_string("service_started"));
		return result;
	}
	for (size_t i = 0; result == 0 && i < v->n; i++) {
		auto_json json_t *one = json_pack("{s:s}", "condition", "service_started");
		auto_free char *path = xasprintf("%s.%s", where, v->keys[i]->text);

		if (!v->items[i]->is_null)
			result = compose_read_map(r, path, v->items[i], fields, ARRAY_SIZE(fields),
			                          one, err);
		(void)json_object_set(all, v->keys[i]->text, json_object_get(one, "condition"));
	}
	return result;
}

/* links: a service by its own name, which it has anyway. */
static int take_links(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                      struct err *err)
{
	auto_json json_t *links = NULL;
	int result = compose_texts(r, v, &links, err);
	size_t i;
	const json_t *link;

	json_array_foreach(links, i, link)
	{
		const char *text = json_string_value(link), *colon = strchr(text, ':');

		if (colon && strncmp(text, colon + 1, (size_t)(colon - text)) != 0)
			return compose_wrong(r, v, err,
			                     "'%.60s': a service is reached by its own name", text);
	}
	return result == 0 && !json_object_get(to, "depends_on") ? take_depends(r, v, to, err)
	                                                         : result;
}

static int take_test(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                     struct err *err)
{
	auto_json json_t *words = NULL;
	const char *kind;
	int result = compose_texts(r, v, &words, err);

	if (result < 0)
		return result;
	if (v->kind == YAML_TEXT)
		(void)json_array_insert_new(words, 0, json_string("CMD-SHELL"));
	kind = json_string_value(json_array_get(words, 0));
	if (kind && strcmp(kind, "NONE") == 0)
		return json_object_set_new(to, "test", json_null());
	if (!kind || json_array_size(words) < 2 ||
	    (strcmp(kind, "CMD") != 0 && strcmp(kind, "CMD-SHELL") != 0))
		return compose_wrong(r, v, err,
		                     "should be text, or a list that begins with CMD, "
		                     "CMD-SHELL or NONE");
	return json_object_set(to, "test", words);
}

static int take_time(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                     struct err *err)
{
	auto_free char *name = xasprintf("%s_ms", r->field);
	uint64_t ms;
	int result = compose_ms(r, v, &ms, err);

	return result == 0 ? json_object_set_new(to, name, json_integer((json_int_t)ms)) : result;
}

static int take_retries(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                        struct err *err)
{
	uint64_t n;
	int result = compose_number(r, v, 100000, &n, err);

	return result == 0 ? json_object_set_new(to, "retries", json_integer((json_int_t)n))
	                   : result;
}

static int take_disable(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                        struct err *err)
{
	bool value;
	int result = compose_flag(r, v, &value, err);

	return result == 0 && value ? json_object_set_new(to, "test", json_null()) : result;
}

static int take_healthcheck(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                            struct err *err)
{
	static const struct compose_field fields[] = {
		{"test", take_test, NULL},           {"interval", take_time, NULL},
		{"timeout", take_time, NULL},        {"start_period", take_time, NULL},
		{"start_interval", take_time, NULL}, {"retries", take_retries, NULL},
		{"disable", take_disable, NULL},
	};
	auto_free char *where = xstrdup(r->path);
	json_t *check = json_object();
	int result = json_object_set_new(to, "healthcheck", check);

	return result == 0 ? compose_read_map(r, where, v, fields, ARRAY_SIZE(fields), check, err)
	                   : result;
}

static int put_port(struct compose_reader *r, const struct yaml_value *v, const char *text,
                    json_t *ports, struct err *err)
{
	const char *slash = strchr(text, '/');
	auto_free char *number = xstrndup(text, slash ? (size_t)(slash - text) : strlen(text));
	const json_t *port;
	uint64_t n;
	size_t i;

	if (slash && strcmp(slash, "/tcp") != 0)
		return compose_wrong(r, v, err, "'%.40s': ports are TCP alone", text);
	if (strchr(number, '-')) {
		(void)compose_wrong(r, v, err, "'%.40s': ranges are not taken", text);
		return err_hint(err, "write each port");
	}
	if (parse_u64(number, PORT_MOST, &n) < 0 || n == 0)
		return compose_wrong(r, v, err, "'%.40s' should be a port", text);
	json_array_foreach(ports, i, port) if ((uint64_t)json_integer_value(port) == n) return 0;
	if (json_array_size(ports) == PORTS_MAX)
		return compose_wrong(r, v, err, "there are more than %d ports", PORTS_MAX);
	return json_array_append_new(ports, json_integer((json_int_t)n));
}

static int take_port(struct compose_reader *r, const struct yaml_value *v, json_t *ports,
                     struct err *err)
{
	static const char *const known[] = {"target",  "published", "protocol",    "mode",
	                                    "host_ip", "name",      "app_protocol"};
	const struct yaml_value *target = v, *protocol;
	auto_free char *text = NULL, *words = NULL;
	const char *colon;
	int result;

	for (size_t i = 0; v->kind == YAML_MAP && i < v->n; i++) {
		size_t k = 0;

		while (k < ARRAY_SIZE(known) && strcmp(known[k], v->keys[i]->text) != 0)
			k++;
		if (k == ARRAY_SIZE(known))
			return compose_wrong(r, v->keys[i], err, "has no field '%.40s'",
			                     v->keys[i]->text);
	}
	if (v->kind == YAML_MAP) {
		target = yaml_get(v, "target");
		protocol = yaml_get(v, "protocol");
		if (!target)
			return compose_wrong(r, v, err, "has no target");
		result = protocol ? compose_text(r, protocol, &words, err) : 0;
		if (result < 0)
			return result;
		if (words && strcmp(words, "tcp") != 0)
			return compose_wrong(r, protocol, err, "'%.40s': ports are TCP alone",
			                     words);
	}
	result = compose_text(r, target, &text, err);
	if (result < 0)
		return result;
	colon = strrchr(text, ':');
	return put_port(r, v, colon ? colon + 1 : text, ports, err);
}

static int take_ports(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                      struct err *err)
{
	json_t *ports = json_array();
	int result = json_object_set_new(to, "ports", ports);

	if (v->kind != YAML_LIST && !v->is_null)
		return compose_wrong(r, v, err, "should be a list");
	for (size_t i = 0; result == 0 && i < v->n; i++)
		result = take_port(r, v->items[i], ports, err);
	return result;
}

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
	static const char *const modes[] = {"ro",     "rw",         "z",         "Z",
	                                    "cached", "consistent", "delegated", "nocopy"};
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
		size_t i = 0;

		save = strchr(mode, ',');
		if (save)
			*save++ = '\0';
		while (i < ARRAY_SIZE(modes) && strcmp(modes[i], mode) != 0)
			i++;
		if (i == ARRAY_SIZE(modes))
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
	static const char *const known[] = {"type",  "source", "target", "read_only",
	                                    "tmpfs", "volume", "bind",   "consistency"};
	const struct yaml_value *type = yaml_get(v, "type"), *source = yaml_get(v, "source"),
				*target = yaml_get(v, "target"), *flag = yaml_get(v, "read_only");
	int result;

	for (size_t i = 0; i < v->n; i++) {
		size_t k = 0;

		while (k < ARRAY_SIZE(known) && strcmp(known[k], v->keys[i]->text) != 0)
			k++;
		if (k == ARRAY_SIZE(known))
			return compose_wrong(r, v->keys[i], err, "has no field '%.40s'",
			                     v->keys[i]->text);
	}
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

static int take_volumes(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                        struct err *err)
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

static int take_tmpfs(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                      struct err *err)
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

static json_t *limits_of(json_t *to)
{
	if (!json_object_get(to, "limits"))
		(void)json_object_set_new(to, "limits", json_object());
	return json_object_get(to, "limits");
}

static int take_memory(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                       struct err *err)
{
	uint64_t mib;
	int result = compose_mib(r, v, &mib, err);

	return result == 0 ? json_object_set_new(limits_of(to), "memory_mib",
	                                         json_integer((json_int_t)mib))
	                   : result;
}

static int take_cpus(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                     struct err *err)
{
	auto_free char *text = NULL;
	double cpus;
	char *end;
	int result = compose_text(r, v, &text, err);

	if (result < 0)
		return result;
	cpus = strtod(text, &end);
	if (end == text || *end || !(cpus > 0 && cpus < MILLI_CPUS))
		return compose_wrong(r, v, err, "'%.40s' should be a number of CPUs such as 0.5",
		                     text);
	return json_object_set_new(limits_of(to), "vcpus", json_real(cpus));
}

static int take_pids(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                     struct err *err)
{
	uint64_t n;
	int result = compose_number(r, v, 4194304, &n, err);

	return result == 0 ? json_object_set_new(limits_of(to), "pids", json_integer((json_int_t)n))
	                   : result;
}

static int take_limits(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                       struct err *err)
{
	static const struct compose_field fields[] = {{"cpus", take_cpus, NULL},
	                                              {"memory", take_memory, NULL},
	                                              {"pids", take_pids, NULL}};
	auto_free char *where = xstrdup(r->path);

	return compose_read_map(r, where, v, fields, ARRAY_SIZE(fields), to, err);
}

static int take_reservations(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                             struct err *err)
{
	static const struct compose_field fields[] = {
		{"cpus", take_nothing, NULL},
		{"memory", take_nothing, NULL},
		{"devices", NULL, "a sandbox has no GPU and no other device of the host"},
	};
	auto_free char *where = xstrdup(r->path);

	return compose_read_map(r, where, v, fields, ARRAY_SIZE(fields), to, err);
}

static int take_resources(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                          struct err *err)
{
	static const struct compose_field fields[] = {{"limits", take_limits, NULL},
	                                              {"reservations", take_reservations, NULL}};
	auto_free char *where = xstrdup(r->path);

	return compose_read_map(r, where, v, fields, ARRAY_SIZE(fields), to, err);
}

static int take_one(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                    struct err *err)
{
	uint64_t n;
	int result = compose_number(r, v, 100000, &n, err);

	(void)to;
	return result == 0 && n != 1 ? compose_wrong(r, v, err, "should be 1") : result;
}

static int put_restart(json_t *to, bool is_always, uint64_t retries)
{
	return json_object_set_new(
		to, "restart",
		json_pack("{s:b, s:i}", "always", is_always, "retries", (int)retries));
}

static int take_restart(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                        struct err *err)
{
	static const char on_failure[] = "on-failure";
	auto_free char *text = NULL;
	uint64_t n = 0;
	int result = compose_text(r, v, &text, err);

	if (result < 0 || strcmp(text, "no") == 0)
		return result;
	if (strcmp(text, "always") == 0 || strcmp(text, "unless-stopped") == 0)
		return put_restart(to, true, 0);
	if (strcmp(text, on_failure) == 0 ||
	    (strncmp(text, "on-failure:", sizeof(on_failure)) == 0 &&
	     parse_u64(text + sizeof(on_failure), 100000, &n) == 0 && n > 0))
		return put_restart(to, false, n);
	return compose_wrong(r, v, err,
	                     "'%.40s' should be \"no\", always, unless-stopped or on-failure[:N]",
	                     text);
}

static int take_deploy(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                       struct err *err)
{
	static const struct compose_field fields[] = {
		{"resources", take_resources, NULL},
		{"replicas", take_one, "copies of a service are services of their own names"},
		{"labels", take_nothing, NULL},
		{"mode", NULL, "there is one sandbox for each service: leave it out"},
		{"placement", NULL, "leave it out"},
		{"restart_policy", NULL, "write restart: on-failure beside deploy"},
		{"update_config", take_nothing, NULL},
		{"rollback_config", take_nothing, NULL},
		{"endpoint_mode", NULL, "leave it out"},
	};
	auto_free char *where = xstrdup(r->path);

	return compose_read_map(r, where, v, fields, ARRAY_SIZE(fields), to, err);
}

static int take_profiles(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                         struct err *err)
{
	json_t *list;
	int result = compose_texts(r, v, &list, err);

	return result == 0 ? json_object_set_new(to, "profiles", list) : result;
}

/* In a group a member has one name. */
static int take_aliases(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                        struct err *err)
{
	auto_json json_t *names = NULL;
	int result = compose_texts(r, v, &names, err);
	size_t i;
	const json_t *name;

	(void)to;
	json_array_foreach(names, i,
	                   name) if (strcmp(json_string_value(name), r->service) !=
	                             0) return compose_wrong(r, v, err,
	                                                     "'%.60s' is not the service's name",
	                                                     json_string_value(name));
	return result;
}

static int take_network(struct compose_reader *r, const struct yaml_value *key,
                        const struct yaml_value *v, json_t *to, struct err *err)
{
	static const struct compose_field fields[] = {
		{"aliases", take_aliases,
	         "a service is reached by its own name alone: give it that name"},
		{"priority", take_nothing, NULL},
		{"ipv4_address", NULL, "members have names: use the service's"},
		{"ipv6_address", NULL, "members have names: use the service's"},
	};
	auto_free char *where = xasprintf("%s.%s", r->path, key->text);

	if (strcmp(key->text, "default") != 0 && !json_object_get(r->networks, key->text))
		return compose_wrong(r, key, err, "'%.60s' is not among the file's networks",
		                     key->text);
	(void)json_object_set_new(json_object_get(to, "networks"), key->text, json_true());
	return !v || v->is_null
	               ? 0
	               : compose_read_map(r, where, v, fields, ARRAY_SIZE(fields), to, err);
}

static int take_networks(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                         struct err *err)
{
	auto_free char *where = xstrdup(r->path);
	int result = 0;

	(void)json_object_set_new(to, "networks", json_object());
	if (v->kind == YAML_TEXT && !v->is_null)
		return compose_wrong(r, v, err, "should be a list or a mapping");
	for (size_t i = 0; result == 0 && i < v->n; i++) {
		const bool is_list = v->kind == YAML_LIST;
		const struct yaml_value *key = is_list ? v->items[i] : v->keys[i];

		(void)snprintf(r->path, sizeof(r->path), "%s", where);
		if (key->kind != YAML_TEXT)
			return compose_wrong(r, key, err, "should be text");
		result = take_network(r, key, is_list ? NULL : v->items[i], to, err);
	}
	return result;
}

static int take_network_mode(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                             struct err *err)
{
	auto_free char *text = NULL;
	int result = compose_text(r, v, &text, err);

	(void)to;
	if (result == 0 && strcmp(text, "none") != 0 && strcmp(text, "bridge") != 0)
		return compose_wrong(r, v, err, "'%.40s' is not taken: none or bridge", text);
	return result;
}

static int take_security(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                         struct err *err)
{
	auto_json json_t *list = NULL;
	int result = compose_texts(r, v, &list, err);
	size_t i;
	const json_t *one;

	(void)to;
	json_array_foreach(list, i,
	                   one) if (strncmp(json_string_value(one), "no-new-privileges", 17) !=
	                            0) return compose_wrong(r, v, err, "'%.60s' is not taken",
	                                                    json_string_value(one));
	return result;
}

#define NO_RIGHTS "a sandbox has no rights over the host: leave it out"

/* clang-format off */
const struct compose_field compose_service_fields[] = {
	{"image",            take_text,         NULL},
	{"x-cloche",         take_own,          NULL},
	{"pull_policy",      take_pull,         NULL},
	{"build",            take_build,        NULL},
	{"command",          take_words,        NULL},
	{"entrypoint",       take_words,        NULL},
	{"environment",      take_environment,  NULL},
	{"env_file",         take_env_files,    NULL},
	{"depends_on",       take_depends,      NULL},
	{"links",            take_links,        NULL},
	{"healthcheck",      take_healthcheck,  NULL},
	{"ports",            take_ports,        NULL},
	{"expose",           take_nothing,      NULL}, /* members reach every port */
	{"volumes",          take_volumes,      NULL},
	{"tmpfs",            take_tmpfs,        NULL},
	{"working_dir",      take_text,         NULL},
	{"user",             take_text,         NULL},
	{"networks",         take_networks,     NULL},
	{"network_mode",     take_network_mode, "members of a project are in one network; --network and --allow say what they reach outside"},
	{"hostname",         take_nothing,      NULL}, /* others find it by the service's name */
	{"container_name",   take_nothing,      NULL},
	{"mem_limit",        take_memory,       NULL},
	{"cpus",             take_cpus,         NULL},
	{"pids_limit",       take_pids,         NULL},
	{"deploy",           take_deploy,       NULL},
	{"scale",            take_one,          "copies of a service are services of their own names"},
	{"restart",          take_restart,      NULL},
	{"profiles",         take_profiles,     NULL},
	{"privileged",       take_false,        NO_RIGHTS},
	{"read_only",        take_false,        "the root of a sandbox can be written, and goes with it: leave it out"},
	{"security_opt",     take_security,     "the walls of a sandbox stay as they are: leave it out"},
	/* What has no meaning here, and is no promise either. */
	{"stdin_open",       take_nothing,      NULL},
	{"tty",              take_nothing,      NULL},
	{"init",             take_nothing,      NULL},
	{"labels",           take_nothing,      NULL},
	{"annotations",      take_nothing,      NULL},
	{"logging",          take_nothing,      NULL},
	{"attach",           take_nothing,      NULL},
	{"cap_drop",         take_nothing,      NULL},
	{"mem_reservation",  take_nothing,      NULL},
	{"memswap_limit",    take_nothing,      NULL},
	{"cpu_shares",       take_nothing,      NULL},
	{"oom_score_adj",    take_nothing,      NULL},
	{"stop_grace_period", take_nothing,     NULL},
	{"stop_signal",      take_nothing,      NULL},
	{"platform",         take_nothing,      NULL},
	/* What is refused. */
	{"extends",          NULL, "use YAML's own anchors: `<<: *name`"},
	{"secrets",          NULL, "copy a file in with volumes, or use `cloche secret` so that it never comes inside"},
	{"configs",          NULL, "copy the file in with volumes: ./FILE:/PATH"},
	{"cap_add",          NULL, NO_RIGHTS},
	{"devices",          NULL, NO_RIGHTS},
	{"device_cgroup_rules", NULL, NO_RIGHTS},
	{"gpus",             NULL, "a sandbox has no GPU"},
	{"sysctls",          NULL, NO_RIGHTS},
	{"ulimits",          NULL, "limits are mem_limit, cpus and pids_limit"},
	{"shm_size",         NULL, "what is shared counts as memory: raise mem_limit"},
	{"pid",              NULL, NO_RIGHTS},
	{"ipc",              NULL, NO_RIGHTS},
	{"uts",              NULL, NO_RIGHTS},
	{"userns_mode",      NULL, NO_RIGHTS},
	{"cgroup",           NULL, NO_RIGHTS},
	{"cgroup_parent",    NULL, NO_RIGHTS},
	{"runtime",          NULL, "cloche compose up --engine jail|vm chooses"},
	{"isolation",        NULL, "cloche compose up --engine jail|vm chooses"},
	{"extra_hosts",      NULL, "a sandbox reaches hosts by its policy: cloche compose up --allow NAME"},
	{"external_links",   NULL, "nobody outside of the project is reached by name"},
	{"dns",              NULL, "the network wall answers names: leave it out"},
	{"dns_search",       NULL, "the network wall answers names: leave it out"},
	{"dns_opt",          NULL, "the network wall answers names: leave it out"},
	{"domainname",       NULL, "use hostname"},
	{"mac_address",      NULL, "leave it out"},
	{"volumes_from",     NULL, "name the volumes in each service"},
	{"volume_driver",    NULL, "leave it out"},
	{"group_add",        NULL, "give the user its groups in the image"},
	{"credential_spec",  NULL, "leave it out"},
	{"develop",          NULL, "run `cloche compose up` again after a change"},
	{"post_start",       NULL, "run it with `cloche compose exec`"},
	{"pre_stop",         NULL, "run it with `cloche compose exec` before `cloche compose down`"},
	{"provider",         NULL, "leave it out"},
	{"models",           NULL, "leave it out"},
	{"blkio_config",     NULL, "leave it out"},
	{"cpuset",           NULL, "use cpus"},
	{"cpu_quota",        NULL, "use cpus"},
	{"cpu_period",       NULL, "use cpus"},
	{"cpu_count",        NULL, "use cpus"},
	{"cpu_percent",      NULL, "use cpus"},
	{"cpu_rt_runtime",   NULL, "use cpus"},
	{"cpu_rt_period",    NULL, "use cpus"},
	{"mem_swappiness",   NULL, "leave it out"},
	{"oom_kill_disable", NULL, "leave it out"},
	{"storage_opt",      NULL, "leave it out"},
};
/* clang-format on */
const size_t compose_n_service_fields = ARRAY_SIZE(compose_service_fields);

static bool share_one(const json_t *a, const json_t *b)
{
	const json_t *of_a = json_object_get(a, "networks"), *of_b = json_object_get(b, "networks");
	const char *name;
	const json_t *value;

	/* Without networks a service is in the one called default. */
	if (json_object_size(of_a) == 0)
		return json_object_size(of_b) == 0 || json_object_get(of_b, "default");
	if (json_object_size(of_b) == 0)
		return json_object_get(of_a, "default") != NULL;
	json_object_foreach (unconst(of_a), name, value)
		if (json_object_get(of_b, name))
			return true;
	return false;
}

int compose_check_networks(const char *file, const json_t *services, struct err *err)
{
	const char *name, *other;
	json_t *a, *b;

	json_object_foreach (unconst(services), name, a) {
		json_object_foreach (unconst(services), other, b) {
			if (share_one(a, b))
				continue;
			(void)err_set(err, ERR_INVALID_FIELD, 0,
			              "%s:%d: services.%.60s.networks: it shares no network with "
			              "'%.60s', but all services of a project reach each other",
			              file, (int)json_integer_value(json_object_get(a, "line")),
			              name, other);
			return err_hint(err,
			                "let all share one, or say --one-network to let all reach "
			                "each other");
		}
	}
	return 0;
}
