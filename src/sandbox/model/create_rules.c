// SPDX-License-Identifier: Apache-2.0
/* The rules for what a client may ask of a new sandbox. No I/O, no state. */
#include "sandbox/model/create_rules.h"

#include "base/parse.h"
#include "base/units.h"
#include "node/node.h"
#include "sandbox/model/ceiling.h"

#include <inttypes.h>

#define TAG_NAME_MAX  64
#define TAG_VALUE_MAX 256
#define ENV_COUNT_MAX 1024
#define ENV_BYTES_MAX (128 * 1024) /* of all names and values; an exec's words come on top */

static const char lower[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
static const char tag_letters[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-";

int rules_check_word(const char *word, const char *field, struct err *err)
{
	size_t len = strlen(word);

	if (len == 0 || len > SANDBOX_NAME_MAX)
		return err_field(err, field, "must have 1 to %d characters", SANDBOX_NAME_MAX);
	if (strspn(word, lower) != len || word[0] == '-' || word[len - 1] == '-')
		return err_field(err, field,
		                 "may have a-z, 0-9 and '-', and '-' neither first nor last");
	return 0;
}

int rules_check_name(const char *name, struct err *err)
{
	return rules_check_word(name, "name", err);
}

static bool has_control(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return true;
	return false;
}

static int check_tag(const char *name, const json_t *value, struct err *err)
{
	size_t len = strlen(name);
	char field[64];

	if (len == 0 || len > TAG_NAME_MAX || strspn(name, tag_letters) != len)
		return err_field(err, "tags",
		                 "a tag's name has 1 to %d of the characters a-z A-Z 0-9 . _ / -",
		                 TAG_NAME_MAX);
	(void)snprintf(field, sizeof(field), "tags.%s", name);
	if (!json_is_string(value))
		return err_field(err, field, "must be a string");
	if (json_string_length(value) > TAG_VALUE_MAX)
		return err_field(err, field, "has %zu bytes, %d are allowed",
		                 json_string_length(value), TAG_VALUE_MAX);
	if (has_control(json_string_value(value)))
		return err_field(err, field, "must not have control characters");
	return 0;
}

int rules_check_tags(const json_t *tags, struct err *err)
{
	const char *name;
	json_t *value;

	if (!tags)
		return 0;
	if (!json_is_object(tags))
		return err_field(err, "tags", "must be an object");
	if (json_object_size(tags) > SANDBOX_TAGS_MAX)
		return err_field(err, "tags", "has %zu tags, %d are allowed",
		                 json_object_size(tags), SANDBOX_TAGS_MAX);
	json_object_foreach ((json_t *)unconst(tags), name, value) {
		int r = check_tag(name, value, err);

		if (r < 0)
			return r;
	}
	return 0;
}

int rules_check_env(const json_t *env, struct err *err)
{
	size_t bytes = 0;
	const char *name;
	json_t *value;

	if (!env)
		return 0;
	if (!json_is_object(env))
		return err_field(err, "env", "must be an object");
	if (json_object_size(env) > ENV_COUNT_MAX)
		return err_field(err, "env", "has %zu variables, %d are allowed",
		                 json_object_size(env), ENV_COUNT_MAX);
	json_object_foreach ((json_t *)unconst(env), name, value) {
		if (name[0] == '\0' || strchr(name, '='))
			return err_field(err, "env",
			                 "a variable's name must not be empty or have a '='");
		if (!json_is_string(value) ||
		    strlen(json_string_value(value)) != json_string_length(value))
			return err_field(err, "env", "'%.40s' must be a string without NUL", name);
		bytes += strlen(name) + json_string_length(value) + 2;
	}
	if (bytes > ENV_BYTES_MAX)
		return err_field(err, "env", "has %zu bytes, %d are allowed", bytes, ENV_BYTES_MAX);
	return 0;
}

static int check_limit(const struct limit *l, uint64_t value, uint64_t max, struct err *err)
{
	char field[48];

	if (value >= l->least && value <= max)
		return 0;
	(void)snprintf(field, sizeof(field), "limits.%s", l->name);
	if (l->kind == LIMIT_CPUS)
		return err_field(err, field, "must be from %g to %g",
		                 (double)l->least / (double)l->unit, (double)max / (double)l->unit);
	return err_field(err, field, "must be from %" PRIu64 " to %" PRIu64 "%s",
	                 (l->least + l->unit - 1) / l->unit, max / l->unit,
	                 l->unit == MIB ? " MiB" : "");
}

int rules_limits(const struct fleet *fleet, const struct guest_limits *asked,
                 const struct guest_limits *base, struct guest_limits *ret, struct err *err)
{
	struct guest_limits limits = *asked;

	limits_fill(&limits, base);
	for (size_t i = 0; i < GUEST_LIMITS_COUNT; i++) {
		const struct limit *l = &limit_table[i];
		int r = check_limit(l, limit_get(l, &limits),
		                    limit_get(l, &fleet->config.max_limits), err);

		if (r < 0)
			return r;
	}
	*ret = limits;
	return 0;
}

static struct exec_limits most_of_execs(const struct fleet_config *c)
{
	return (struct exec_limits){.output_bytes = c->spool_bytes_max, .execs = c->execs_max};
}

int rules_exec_limits(const struct fleet *fleet, const char *project_id, const char *key_id,
                      const struct exec_limits *asked, struct err *err)
{
	const struct exec_limits most = most_of_execs(&fleet->config);
	int r = 0;

	for (size_t i = GUEST_LIMITS_COUNT; r == 0 && i < LIMITS_COUNT; i++) {
		const struct limit *l = &limit_table[i];
		uint64_t value = limit_get(l, asked);

		if (value)
			r = check_limit(l, value, limit_get(l, &most), err);
	}
	return r < 0 ? r : ceiling_check_execs(fleet, project_id, key_id, asked, err);
}

struct exec_limits rules_effective_exec_limits(const struct sandbox *s)
{
	struct exec_limits holds = most_of_execs(&s->fleet->config);

	for (size_t i = GUEST_LIMITS_COUNT; i < LIMITS_COUNT; i++) {
		const struct limit *l = &limit_table[i];
		uint64_t value = limit_get(l, &s->exec_limits);

		if (value)
			limit_set(l, &holds, MIN(value, limit_get(l, &holds)));
	}
	ceiling_lower_execs(s, &holds);
	return holds;
}

int rules_fixed_limits(const struct guest_limits *before, const struct guest_limits *after,
                       struct err *err)
{
	for (size_t i = 0; i < GUEST_LIMITS_COUNT; i++) {
		const struct limit *l = &limit_table[i];
		char field[48];

		if (!l->is_fixed || limit_get(l, before) == limit_get(l, after))
			continue;
		(void)snprintf(field, sizeof(field), "limits.%s", l->name);
		(void)err_field(err, field, "cannot be changed while it runs");
		return err_hint(err, "a persistent sandbox can be stopped first");
	}
	return 0;
}

int rules_timeout(const struct fleet *fleet, uint64_t timeout_ms, struct err *err)
{
	uint64_t max = fleet->config.max_timeout_ms;

	if (max > 0 && (timeout_ms == 0 || timeout_ms > max))
		return err_field(err, "timeout_ms", "must be from 1 to %" PRIu64, max);
	if (timeout_ms > INT64_MAX / 1000 / 2)
		return err_field(err, "timeout_ms", "is too long");
	return 0;
}

int rules_idle_timeout(uint64_t timeout_ms, struct err *err)
{
	if (timeout_ms > INT64_MAX / 1000 / 2)
		return err_field(err, "idle_timeout_ms", "is too long");
	return 0;
}

int rules_on_timeout(const char *word, bool is_persistent, enum timeout_action *ret,
                     struct err *err)
{
	if (!word) {
		*ret = is_persistent ? ON_TIMEOUT_STOP : ON_TIMEOUT_DELETE;
		return 0;
	}
	for (unsigned i = 0; i < ON_TIMEOUT_COUNT; i++)
		if (strcmp(word, timeout_action_name((enum timeout_action)i)) == 0) {
			*ret = (enum timeout_action)i;
			return 0;
		}
	return err_field(err, "on_timeout", "must be delete, stop or pause");
}

int rules_on_idle(const char *word, enum timeout_action *ret, struct err *err)
{
	*ret = ON_TIMEOUT_COUNT;
	if (!word || rules_on_timeout(word, false, ret, err) == 0)
		return 0;
	return err_field(err, "on_idle", "must be delete, stop or pause");
}

int rules_on_node_loss(const struct fleet *fleet, const struct sandbox_spec *spec,
                       enum on_node_loss *ret, struct err *err)
{
	static const char field[] = "on_node_loss";
	int r = 0;

	*ret = ON_NODE_LOSS_END;
	if (!spec->on_node_loss || strcmp(spec->on_node_loss, "end") == 0)
		return 0;
	if (strcmp(spec->on_node_loss, "restore") != 0)
		return err_field(err, field, "must be end or restore");
	if (!node_is_in(fleet->config.node)) {
		(void)err_field(err, field, "restore needs a cluster, and this daemon is in none");
		return err_hint(err, "leave it out, or see docs/guides/cluster.md");
	}
	if (!fleet->config.has_objects) {
		(void)err_field(err, field,
		                "restore needs a store of objects, which this cluster "
		                "does not have");
		return err_hint(err, "its operator sets `objects` under [cluster] on each node");
	}
	if (!spec->is_persistent) {
		(void)err_field(err, field, "restore is for persistent sandboxes alone");
		return err_hint(err, "give persistent: true, too");
	}
	if (json_array_size(spec->volumes) > 0)
		r = err_field(err, field,
		              "restore is not possible with volumes: they lie on one node");
	else if (spec->group)
		r = err_field(err, field,
		              "restore is not possible in a group: its members are on one node");
	if (r == 0)
		*ret = ON_NODE_LOSS_RESTORE;
	return r;
}

int rules_check(const struct fleet *fleet, const char *project_id, const struct sandbox_spec *spec,
                struct guest_limits *ret_limits, uint64_t *ret_timeout_ms, struct err *err)
{
	struct guest_limits defaults = fleet->config.default_limits;
	uint64_t timeout_ms = fleet->config.default_timeout_ms;
	enum timeout_action action;
	enum on_node_loss loss;
	int r;

	ceiling_lower(fleet, project_id, spec->key_id, &defaults, &timeout_ms);
	if (spec->timeout_ms)
		timeout_ms = spec->timeout_ms;

	if (spec->name) {
		r = rules_check_name(spec->name, err);
		if (r < 0)
			return r;
	}
	r = rules_check_tags(spec->tags, err);
	if (r < 0)
		return r;
	r = rules_check_env(spec->env, err);
	if (r < 0)
		return r;
	r = rules_timeout(fleet, timeout_ms, err);
	if (r == 0)
		r = rules_idle_timeout(spec->idle_timeout_ms, err);
	if (r == 0)
		r = rules_on_timeout(spec->on_timeout, spec->is_persistent, &action, err);
	if (r == 0)
		r = rules_on_idle(spec->on_idle, &action, err);
	if (r == 0)
		r = rules_on_node_loss(fleet, spec, &loss, err);
	if (r < 0)
		return r;
	*ret_timeout_ms = timeout_ms;
	r = rules_limits(fleet, &spec->limits, &defaults, ret_limits, err);
	if (r == 0)
		r = rules_exec_limits(fleet, project_id, spec->key_id, &spec->exec_limits, err);
	return r < 0 ? r
	             : ceiling_check(fleet, project_id, spec->key_id, &spec->limits,
	                             spec->timeout_ms, err);
}
