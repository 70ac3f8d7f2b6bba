// SPDX-License-Identifier: Apache-2.0
/*
 * All services of a project reach each other, each by its own name. So the networks of a file must
 * say just that: a service has no other name in one, and any two services share one.
 */
#include "cli/compose/compose_take.h"

#include <stdio.h>
#include <string.h>

/* In a group a member has one name. */
static int take_aliases(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                        struct err *err)
{
	auto_json json_t *names = NULL;
	int result = compose_texts(r, v, &names, err);
	size_t i;
	const json_t *name;

	(void)to;
	json_array_foreach(names, i, name)
	{
		if (strcmp(json_string_value(name), r->service) != 0)
			return compose_wrong(r, v, err, "'%.60s' is not the service's name",
			                     json_string_value(name));
	}
	return result;
}

static int take_network(struct compose_reader *r, const struct yaml_value *key,
                        const struct yaml_value *v, json_t *to, struct err *err)
{
	static const struct compose_field fields[] = {
		{"aliases", take_aliases,
	         "a service is reached by its own name alone: give it that name"},
		{"priority", take_nothing},
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

int take_networks(struct compose_reader *r, const struct yaml_value *v, json_t *to, struct err *err)
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

int take_network_mode(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                      struct err *err)
{
	static const char *const modes[] = {"none", "bridge", NULL};
	auto_free char *text = NULL;

	(void)to;
	return compose_choice(r, v, modes, " is not taken: none or bridge", &text, err);
}

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
