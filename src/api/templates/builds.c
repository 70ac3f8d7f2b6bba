// SPDX-License-Identifier: Apache-2.0
/* Builds of templates, of the caller's project. */
#include "api/api.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "api/nodes/node_rows.h"
#include "api/templates/dockerfile_build.h"
#include "api/templates/packages.h"
#include "build/dockerfile/dockerfile_lines.h"
#include "build/recipe/recipe.h"

#include <string.h>

static void put_build(struct build *b, void *arg)
{
	build_to_json(b, arg, NULL);
}

static void put_own(struct http_req *req, struct json_writer *w)
{
	const struct api *api = http_app_arg(req);

	builds_each(api->builds, caller_project(req), put_build, w);
}

int list_builds(struct http_req *req, struct err *err)
{
	static const struct node_rows_kind kind = {.array = "builds", .put_own = put_own};
	struct reply reply;
	struct json_writer *w;
	int r = node_rows_begin(req, &kind, err);

	if (r != 0)
		return r;
	w = reply_begin(&reply);
	json_open_array(w, "builds");
	put_own(req, w);
	json_close_array(w);
	return reply_send(&reply, req, 200, err);
}

static int hint_names(struct err *err)
{
	auto_call(buf_done) struct buf names = BUF_INIT(sizeof(err->hint));
	const char *name;

	for (size_t i = 0; (name = recipe_shipped_name(i)); i++)
		(void)!buf_printf(&names, "%s%s", i > 0 ? ", " : "", name);
	return err_hint(err, "these do: %.*s; or give the file of a recipe of your own",
	                (int)names.len, names.data);
}

/* A recipe's own text, or the name of one that comes with cloche. */
static int read_recipe(const char *text, const char *name, json_t **ret, struct err *err)
{
	if ((text != NULL) == (name != NULL))
		return err_field(err, "recipe", "either a recipe or the name of one is needed");
	if (text)
		return recipe_parse("recipe", text, strlen(text), ret, err);
	text = recipe_shipped(name);
	if (text)
		return recipe_parse(name, text, strlen(text), ret, err);
	(void)err_field(err, "name", "no recipe '%.64s' comes with cloche", name);
	return hint_names(err);
}

/* What all projects get may be made by those who rule over all. */
static int check_shared(const struct http_req *req, struct err *err)
{
	if (key_scope(http_user(req)) != SCOPE_ADMIN)
		return err_set(err, ERR_FORBIDDEN, 0, "shared: needs a key with scope 'admin'");
	return check_is_default(req, err);
}

int create_build(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *text = NULL, *name = NULL;
	struct dockerfile_body docker = {0};
	struct build_spec spec = {.project_id = caller_project(req)};
	uint64_t retries = 0;
	const struct json_field fields[] = {
		{"recipe", JSON_FIELD_STRING, &text, .min = 1, .max = RECIPE_BYTES_MAX},
		{"name", JSON_FIELD_STRING, &name, .min = 1, .max = 64},
		{"dockerfile", JSON_FIELD_STRING, &docker.text, .min = 1,
	         .max = DOCKERFILE_BYTES_MAX},
		{"files", JSON_FIELD_STRING, &docker.files, .min = 1, .max = 64},
		{"target", JSON_FIELD_STRING, &docker.target, .min = 1, .max = 64},
		{"build_args", JSON_FIELD_OBJECT, &docker.build_args},
		{"shared", JSON_FIELD_BOOL, &spec.is_shared},
		{"fresh", JSON_FIELD_BOOL, &spec.is_fresh},
		{"retries", JSON_FIELD_U64, &retries, .max = BUILD_RETRIES_MAX},
	};
	auto_json json_t *recipe = NULL;
	struct build *b;
	struct reply reply;
	int r;

	if (json_object_get(http_json(req), "packages"))
		return prepare_packages(req, http_json(req), err);
	r = json_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);
	docker.name = name;
	if (r == 0 && docker.text && text)
		r = err_field(err, "dockerfile", "cannot be given with a recipe");
	if (r == 0 && !docker.text && (docker.files || docker.target || docker.build_args))
		r = err_field(err, "dockerfile", "is missing");
	if (r == 0)
		r = docker.text ? dockerfile_recipe(req, &docker, &recipe, err)
		                : read_recipe(text, name, &recipe, err);
	/* There is one kernel, for all. */
	spec.is_shared = spec.is_shared || (recipe && json_object_get(recipe, "kernel"));
	if (r == 0 && spec.is_shared)
		r = check_shared(req, err);
	spec.recipe = recipe;
	spec.retries = (uint32_t)retries;
	if (r == 0)
		r = build_start(api->builds, &spec, &b, err);
	if (r < 0)
		return r;
	build_to_json(b, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, 202, err);
}

int find_build(const struct http_req *req, struct build **ret, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = http_param(req, "build_id");

	*ret = build_find(api->builds, caller_project(req), id);
	return *ret ? 0 : err_set(err, ERR_NOT_FOUND, 0, "no build '%.64s'", id);
}

int get_build(struct http_req *req, struct err *err)
{
	struct build *b;
	struct reply reply;
	int r = find_build(req, &b, err);

	if (r < 0)
		return r;
	build_to_json(b, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, 200, err);
}

int cancel_build(struct http_req *req, struct err *err)
{
	struct build *b;
	struct reply reply;
	int r = find_build(req, &b, err);

	if (r < 0)
		return r;
	build_cancel(b);
	build_to_json(b, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, 202, err);
}
