// SPDX-License-Identifier: Apache-2.0
#include "person/role_map.h"

#include "base/log.h"

#include <string.h>

#define VALUE_MAX 256

struct rule {
	char *value, *project;
	enum key_scope scope;
};
struct role_map {
	size_t n;
	struct rule of[PERSON_ROLES_MAX];
};

DEFINE_FREEP(struct role_map, role_map_free)

static int parse_rule(const char *text, const char *field, struct rule *ret, struct err *err)
{
	const char *equals = strrchr(text, '='), *colon = equals ? strchr(equals, ':') : NULL;
	auto_free char *role = NULL;

	if (!equals || equals == text || equals - text > VALUE_MAX || !colon || !colon[1])
		return err_field(err, field,
		                 "'%.80s' is not VALUE=ROLE:PROJECT, such as "
		                 "\"team-a=write:default\"",
		                 text);
	role = xstrndup(equals + 1, (size_t)(colon - equals - 1));
	if (key_scope_parse(role, &ret->scope) < 0)
		return err_field(err, field, "'%.80s': '%.40s' is no role: read, write or admin",
		                 text, role);
	ret->value = xstrndup(text, (size_t)(equals - text));
	ret->project = xstrdup(colon + 1);
	return 0;
}

int role_map_parse(char *const *list, const char *field, struct role_map **ret, struct err *err)
{
	auto_call(role_map_freep) struct role_map *map = xnew0(struct role_map);
	int r = 0;

	for (; list && *list && r == 0; list++) {
		if (map->n == PERSON_ROLES_MAX)
			return err_field(err, field, "there are more than %d", PERSON_ROLES_MAX);
		r = parse_rule(*list, field, &map->of[map->n], err);
		map->n += r == 0;
	}
	if (r < 0)
		return r;
	*ret = take_ptr(map);
	return 0;
}

void role_map_free(struct role_map *map)
{
	for (size_t i = 0; map && i < map->n; i++) {
		free(map->of[i].value);
		free(map->of[i].project);
	}
	free(map);
}

/* A claim by its whole name (which may be a URL with dots), else step by step. */
static const json_t *find_claim(const json_t *claims, const char *name)
{
	const json_t *found = json_object_get(claims, name);
	const char *dot = strchr(name, '.');
	auto_free char *first = NULL;

	if (found || !dot)
		return found;
	first = xstrndup(name, (size_t)(dot - name));
	found = json_object_get(claims, first);
	return json_is_object(found) ? find_claim(found, dot + 1) : NULL;
}

static bool has_value(const json_t *claim, const char *value)
{
	const json_t *item;
	size_t i;

	if (json_is_string(claim))
		return strcmp(json_string_value(claim), value) == 0;
	json_array_foreach(claim, i, item)
	{
		if (json_is_string(item) && strcmp(json_string_value(item), value) == 0)
			return true;
	}
	return false;
}

static size_t add(struct person_role *roles, size_t n, const char *project_id, enum key_scope scope)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(roles[i].project_id, project_id) != 0)
			continue;
		roles[i].scope = MAX(roles[i].scope, scope);
		return n;
	}
	roles[n] = (struct person_role){project_id, scope};
	return n + 1;
}

size_t role_map_apply(const struct role_map *map, const json_t *claims, const char *claim,
                      struct keyring *ring, struct person_role ret[PERSON_ROLES_MAX])
{
	const json_t *found = find_claim(claims, claim);
	size_t n = 0;

	/* Whoever can write any address into his account is nobody by that. */
	if (strcmp(claim, "email") == 0 && !json_is_true(json_object_get(claims, "email_verified")))
		found = NULL;
	for (size_t i = 0; i < map->n; i++) {
		const struct rule *rule = &map->of[i];
		const char *project_id;

		if (strcmp(rule->value, "*") != 0 && !has_value(found, rule->value))
			continue;
		project_id = keyring_find_project(ring, rule->project);
		if (project_id)
			n = add(ret, n, project_id, rule->scope);
		else
			log_warn("login.no_project", "role='%s' project='%s'", rule->value,
			         rule->project);
	}
	return n;
}
