// SPDX-License-Identifier: Apache-2.0
#include "cli/compose/compose_file.h"

#include "cli/compose/compose_take.h"

#include <stdio.h>
#include <string.h>

static int take_project_name(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                             struct err *err)
{
	auto_free char *text = NULL;
	int result = compose_text(r, v, &text, err);

	return result == 0 ? compose_put_text(to, "name", text) : result;
}

static int take_driver(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                       struct err *err)
{
	static const char *const drivers[] = {"local", "bridge", NULL};
	auto_free char *text = NULL;

	(void)to;
	return compose_choice(r, v, drivers, " is not taken: leave it out", &text, err);
}

static const struct compose_field volume_fields[] = {
	{"driver", take_driver},
	{"labels", take_nothing},
	{"name", NULL, "a volume is the project's own: leave it out"},
	{"external", take_false, "a volume is the project's own: leave it out"},
	{"driver_opts", NULL, "leave it out"},
};

static const struct compose_field network_fields[] = {
	{"driver", take_driver},
	{"labels", take_nothing},
	{"name", take_nothing},
	{"internal", take_nothing}, /* nothing outside is reached but what `up` allows */
	{"attachable", take_nothing},
	{"external", take_false, "nobody outside of the project is reached: leave it out"},
	{"ipam", NULL, "members have names: leave it out"},
	{"driver_opts", NULL, "leave it out"},
	{"enable_ipv6", NULL, "leave it out"},
	{"enable_ipv4", NULL, "leave it out"},
};

/* A mapping of names to objects, each of which may be nothing. */
static int read_names(struct compose_reader *r, const char *what, const struct yaml_value *all,
                      const struct compose_field *fields, size_t n, json_t *ret, struct err *err)
{
	int result = 0;

	(void)snprintf(r->path, sizeof(r->path), "%s", what);
	if (!all || all->is_null)
		return 0;
	if (all->kind != YAML_MAP)
		return compose_wrong(r, all, err, "should be a mapping");
	for (size_t i = 0; result == 0 && i < all->n; i++) {
		auto_free char *where = xasprintf("%s.%.60s", what, all->keys[i]->text);
		json_t *one = json_object();

		if (json_object_set_new(ret, all->keys[i]->text, one) < 0)
			return compose_wrong(r, all->keys[i], err, "is not valid UTF-8");
		if (!all->items[i]->is_null)
			result = compose_read_map(r, where, all->items[i], fields, n, one, err);
	}
	return result;
}

static bool is_host_name(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
	size_t n = strlen(name);

	return n > 0 && n < 64 && strspn(name, letters) == n && name[0] != '-' &&
	       name[n - 1] != '-';
}

static int read_service(struct compose_reader *r, const struct yaml_value *key,
                        const struct yaml_value *v, json_t *services, struct err *err)
{
	auto_free char *where = xasprintf("services.%.60s", key->text);
	json_t *service = json_pack("{s:i}", "line", (int)key->line);
	int result;

	(void)snprintf(r->path, sizeof(r->path), "%s", where);
	r->service = key->text;
	if (!is_host_name(key->text)) {
		json_decref(service);
		return compose_wrong(r, key, err,
		                     "a service's name is its host name: a-z, 0-9, '-' and '_'");
	}
	(void)json_object_set_new(services, key->text, service);
	result = compose_read_map(r, where, v, compose_service_fields, compose_n_service_fields,
	                          service, err);
	if (result < 0)
		return result;
	(void)snprintf(r->path, sizeof(r->path), "%s", where);
	if (!json_object_get(service, "image") && !json_object_get(service, "build") &&
	    !json_object_get(service, "template"))
		return compose_wrong(r, key, err, "it needs image or build");
	return 0;
}

static int read_services(struct compose_reader *r, const struct yaml_value *all, json_t *model,
                         struct err *err)
{
	json_t *services = json_object();
	int result = json_object_set_new(model, "services", services);

	if (!all || all->kind != YAML_MAP || all->n == 0) {
		return err_set(err, ERR_INVALID_FIELD, 0, "%s: there are no services",
		               r->source->name);
	}
	if (all->n > COMPOSE_SERVICES_MAX) {
		(void)snprintf(r->path, sizeof(r->path), "services");
		return compose_wrong(r, all, err, "there are more than %d", COMPOSE_SERVICES_MAX);
	}
	for (size_t i = 0; result == 0 && i < all->n; i++)
		result = read_service(r, all->keys[i], all->items[i], services, err);
	return result;
}

static int wrong_dependency(const struct compose_reader *r, const json_t *service, const char *name,
                            struct err *err, const char *why, const char *other)
{
	return err_set(err, ERR_INVALID_FIELD, 0, "%s:%d: services.%.60s.depends_on: '%.60s' %s",
	               r->source->name, (int)json_integer_value(json_object_get(service, "line")),
	               name, other, why);
}

static int check_dependencies(const struct compose_reader *r, const json_t *services,
                              struct err *err)
{
	const char *name, *other;
	json_t *service, *condition;

	json_object_foreach (unconst(services), name, service) {
		json_object_foreach (json_object_get(service, "depends_on"), other, condition) {
			if (!json_object_get(services, other))
				return wrong_dependency(r, service, name, err, "is no service",
				                        other);
		}
	}
	/* What needs only what is marked is marked; what is left is a circle. */
	for (auto_json json_t *done = json_object();;) {
		const size_t before = json_object_size(done);
		const char *left = NULL;

		json_object_foreach (unconst(services), name, service) {
			bool is_ready = true;

			json_object_foreach (json_object_get(service, "depends_on"), other,
			                     condition)
				is_ready = is_ready && json_object_get(done, other);
			if (is_ready)
				(void)json_object_set_new(done, name, json_true());
			else
				left = name;
		}
		if (!left)
			return 0;
		if (json_object_size(done) == before)
			return wrong_dependency(r, json_object_get(services, left), left, err,
			                        "waits for itself in the end", left);
	}
}

static const struct compose_field top_fields[] = {
	{"version", take_nothing},
	{"name", take_project_name},
	{"services", take_nothing}, /* these three are read by themselves */
	{"volumes", take_nothing},
	{"networks", take_nothing},
	{"include", NULL, "put the services into one file"},
	{"secrets", NULL, "copy a file in with volumes, or use `cloche secret`"},
	{"configs", NULL, "copy the file in with a service's volumes: ./FILE:/PATH"},
	{"models", NULL, "leave it out"},
};

static int read_all(struct compose_reader *r, const struct yaml_value *top, json_t *model,
                    struct err *err)
{
	int result;

	if (top->kind != YAML_MAP)
		return compose_wrong(r, top, err, "a Compose file is a mapping with services");
	result = compose_read_map(r, "", top, top_fields, ARRAY_SIZE(top_fields), model, err);
	if (result == 0)
		result = read_names(r, "volumes", yaml_get(top, "volumes"), volume_fields,
		                    ARRAY_SIZE(volume_fields), r->volumes, err);
	if (result == 0)
		result = read_names(r, "networks", yaml_get(top, "networks"), network_fields,
		                    ARRAY_SIZE(network_fields), r->networks, err);
	if (result == 0)
		result = read_services(r, yaml_get(top, "services"), model, err);
	return result == 0 ? check_dependencies(r, json_object_get(model, "services"), err)
	                   : result;
}

int compose_file_read(const struct compose_source *source, json_t **ret, struct err *err)
{
	auto_call(yaml_freep) struct yaml_file *file = NULL;
	auto_json json_t *model = json_object(), *volumes = json_object(),
			 *networks = json_object();
	struct compose_reader r = {.source = source, .volumes = volumes, .networks = networks};
	int result = yaml_read(source->name, source->text, source->len, &file, err);

	if (result == 0)
		result = read_all(&r, yaml_top(file), model, err);
	if (result < 0)
		return result;
	(void)json_object_set(model, "volumes", volumes);
	*ret = take_ptr(model);
	return 0;
}
