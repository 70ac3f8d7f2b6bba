// SPDX-License-Identifier: Apache-2.0
#include "cli/session/spec.h"

#include "base/fd.h"
#include "cli/session/packages.h"

#include <fcntl.h>
#include <string.h>

void sandbox_opts_done(struct sandbox_opts *s)
{
	opt_list_done(&s->tags);
	opt_list_done(&s->env);
	opt_list_done(&s->allow);
	opt_list_done(&s->packages);
	opt_list_done(&s->volumes);
	opt_list_done(&s->results);
}

#define IS_GIVEN(l, member, name, ...) || (l)->name > 0
static bool limits_are_given(const struct limit_opts *l)
{
	return false GUEST_LIMITS(IS_GIVEN, l);
}

bool sandbox_opts_are_given(const struct sandbox_opts *s)
{
	return s->name || s->group || s->alias || s->template || s->image || s->pull ||
	       s->snapshot || s->engine || s->min_grade || s->tags.n || s->env.n || s->network ||
	       s->allow.n || s->packages.n || s->volumes.n || s->results.n || s->wait_ms ||
	       limits_are_given(&s->limits);
}

/* Fields are left out where nothing was asked for: the daemon has the defaults. */
static void put_text(json_t *object, const char *name, const char *value)
{
	if (value)
		(void)json_object_set_new(object, name, json_string(value));
}

static void put_number(json_t *object, const char *name, uint64_t value)
{
	if (value)
		(void)json_object_set_new(object, name, json_integer((json_int_t)value));
}

static void put_decimal(json_t *object, const char *name, double value)
{
	if (value > 0)
		(void)json_object_set_new(object, name, json_real(value));
}

/* clang-format off */
#define PUT_CPUS    put_decimal
#define PUT_SIZE    put_number
#define PUT_COUNT   put_number
#define PUT_COUNT64 put_number
#define PUT(limits, member, name, kind, ...) PUT_##kind(object, #name, (limits)->name);
/* clang-format on */

static json_t *limits_to_json(const struct limit_opts *limits)
{
	json_t *object = json_object();

	GUEST_LIMITS(PUT, limits)
	return object;
}

static int put_pair(json_t *object, const char *option, const char *pair, const char *equals,
                    struct err *err)
{
	auto_free char *name = xstrndup(pair, (size_t)(equals - pair));

	if (!*name)
		return err_set(err, ERR_INVALID_FIELD, 0, "--%s: '%s' has no name before the '='",
		               option, pair);
	if (json_object_set_new(object, name, json_string(equals + 1)) < 0)
		return err_set(err, ERR_INVALID_FIELD, 0, "--%s: '%s' is not valid UTF-8", option,
		               name);
	return 0;
}

int env_to_json(const struct opt_list *env, json_t **ret, struct err *err)
{
	auto_json json_t *object = json_object();

	for (size_t i = 0; i < env->n; i++) {
		const char *pair = env->items[i];
		const char *equals = strchr(pair, '=');
		const char *own = equals ? NULL : getenv(pair);
		auto_free char *whole = own ? xasprintf("%s=%s", pair, own) : NULL;
		int r = 0;

		if (equals)
			r = put_pair(object, "env", pair, equals, err);
		else if (whole)
			r = put_pair(object, "env", whole, whole + strlen(pair), err);
		if (r < 0)
			return r;
	}
	*ret = take_ptr(object);
	return 0;
}

static int tags_to_json(const struct opt_list *tags, json_t **ret, struct err *err)
{
	auto_json json_t *object = json_object();

	for (size_t i = 0; i < tags->n; i++) {
		const char *equals = strchr(tags->items[i], '=');
		int r;

		if (!equals)
			return err_set(err, ERR_INVALID_FIELD, 0,
			               "--tag: '%s' should be NAME=VALUE", tags->items[i]);
		r = put_pair(object, "tag", tags->items[i], equals, err);
		if (r < 0)
			return r;
	}
	*ret = take_ptr(object);
	return 0;
}

#define POLICY_FILE_MAX (128 * 1024)

static int read_policy(const char *path, json_t **ret, struct err *err)
{
	auto_free char *text = xcalloc(POLICY_FILE_MAX, 1);
	int r = fd_read_file(AT_FDCWD, path, text, POLICY_FILE_MAX);

	if (r < 0) {
		(void)err_set(err, ERR_INVALID_FIELD, -r, "--network: cannot read '%s'", path);
		return err_hint(err, "it is deny-all, allow-all, or the name of a JSON file");
	}
	r = json_parse(text, strlen(text), ret, err);
	return r < 0 ? err_prefix(err, "--network: '%s'", path) : 0;
}

int network_to_json(const char *network, const struct opt_list *allow, json_t **ret,
                    struct err *err)
{
	auto_json json_t *names = json_array();

	*ret = NULL;
	if (network && allow->n > 0)
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "--network and --allow: only one of them can be given");
	if (network && (strcmp(network, "deny-all") == 0 || strcmp(network, "allow-all") == 0)) {
		*ret = json_string(network);
		return 0;
	}
	if (network)
		return read_policy(network, ret, err);
	if (allow->n == 0)
		return 0;
	for (size_t i = 0; i < allow->n; i++)
		if (json_array_append_new(names, json_string(allow->items[i])) < 0)
			return err_set(err, ERR_INVALID_FIELD, 0,
			               "--allow: a name is not valid UTF-8");
	*ret = json_pack("{s:O}", "allow", names);
	return 0;
}

static json_t *read_volume(const char *word)
{
	const char *colon = strchr(word, ':');
	auto_free char *name = NULL, *path = NULL;
	size_t len;

	if (!colon || colon[1] != '/')
		return NULL;
	name = xstrndup(word, (size_t)(colon - word));
	path = xstrdup(colon + 1);
	len = strlen(path);
	if (len > 3 && strcmp(path + len - 3, ":ro") == 0)
		path[len - 3] = '\0';
	return json_pack("{s:s, s:s, s:b}", "volume", name, "path", path, "read_only",
	                 strlen(path) != len);
}

static int volumes_to_json(const struct opt_list *volumes, json_t *body, struct err *err)
{
	auto_json json_t *list = json_array();

	if (volumes->n == 0)
		return 0;
	for (size_t i = 0; i < volumes->n; i++)
		if (json_array_append_new(list, read_volume(volumes->items[i])) < 0)
			return err_set(err, ERR_INVALID_FIELD, 0,
			               "--volume: '%s' should be NAME:/PATH or NAME:/PATH:ro",
			               volumes->items[i]);
	return json_object_set(body, "volumes", list);
}

char *tag_to_query(const char *tag)
{
	char *query = xstrdup(tag);
	char *equals = strchr(query, '=');

	if (equals)
		*equals = ':';
	return query;
}

int result_opts_to_json(const struct opt_list *results, json_t *body, struct err *err)
{
	json_t *paths;
	int r;

	if (results->n == 0)
		return 0;
	r = argv_to_json((char *const *)unconst(results->items), results->n, &paths, err);
	return r < 0 ? r : json_object_set_new(body, "results", paths);
}

int sandbox_opts_to_json(const struct sandbox_opts *s, uint64_t timeout_ms, json_t **ret,
                         struct err *err)
{
	auto_json json_t *body = json_object();
	json_t *map = NULL;
	int r;

	(void)json_object_set_new(body, "limits", limits_to_json(&s->limits));
	put_text(body, "name", s->name);
	put_text(body, "group", s->group);
	put_text(body, "alias", s->alias);
	put_text(body, "template", s->template);
	put_text(body, "image", s->image);
	put_text(body, "pull", s->pull);
	if (!s->template && !s->image && !s->snapshot)
		put_text(body, "language", s->language);
	put_text(body, "snapshot", s->snapshot);
	put_text(body, "engine", s->engine);
	put_text(body, "min_grade", s->min_grade);
	put_number(body, "timeout_ms", timeout_ms);
	put_number(body, "wait_ms", s->wait_ms);
	r = packages_to_json(&s->packages, s->language, body, err);
	if (r == 0)
		r = volumes_to_json(&s->volumes, body, err);
	if (r == 0)
		r = result_opts_to_json(&s->results, body, err);
	if (r == 0)
		r = tags_to_json(&s->tags, &map, err);
	if (r < 0)
		return r;
	(void)json_object_set_new(body, "tags", map);
	r = env_to_json(&s->env, &map, err);
	if (r < 0)
		return r;
	(void)json_object_set_new(body, "env", map);
	r = network_to_json(s->network, &s->allow, &map, err);
	if (r < 0)
		return r;
	if (map)
		(void)json_object_set_new(body, "network", map);
	*ret = take_ptr(body);
	return 0;
}

static void put_flag(json_t *object, const char *name, bool value)
{
	if (value)
		(void)json_object_set_new(object, name, json_true());
}

void life_opts_to_json(const struct life_opts *l, json_t *body)
{
	put_number(body, "idle_timeout_ms", l->idle_timeout_ms);
	put_text(body, "on_timeout", l->on_timeout);
	put_text(body, "on_idle", l->on_idle);
	put_text(body, "on_node_loss", l->on_node_loss);
	put_flag(body, "persistent", l->is_persistent);
	put_flag(body, "auto_resume", l->auto_resumes);
	put_flag(body, "paused_time_counts", l->counts_paused);
	put_flag(body, "get_or_create", l->is_get);
}

int argv_to_json(char *const *argv, size_t n, json_t **ret, struct err *err)
{
	auto_json json_t *array = json_array();

	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(array, json_string(argv[i])) < 0)
			return err_set(err, ERR_INVALID_FIELD, 0, "word %zu is not valid UTF-8",
			               i + 1);
	*ret = take_ptr(array);
	return 0;
}
