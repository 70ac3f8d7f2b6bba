// SPDX-License-Identifier: Apache-2.0
#include "api/templates/dockerfile_build.h"

#include "api/frame/find.h"
#include "build/dockerfile/dockerfile_plan.h"
#include "build/parcel.h"
#include "build/recipe/recipe.h"
#include "sandbox/storage/template.h"

#include <string.h>

#if defined(__x86_64__)
#define ARCH "amd64"
#else
#define ARCH "arm64"
#endif

/* There is no such template. An image of a registry has to be imported first. */
static int refuse_base(const char *reference, const char *name, struct err *err)
{
	if (strcmp(reference, TEMPLATE_HOST) == 0)
		return err_field(err, "dockerfile",
		                 "'" TEMPLATE_HOST
		                 "' is this machine's own programs, and no image");
	(void)err_field(err, "dockerfile", "there is no template '%.64s'", reference);
	if (recipe_shipped(reference))
		return err_hint(err, "it comes with cloche: cloche template build %.64s",
		                reference);
	return err_hint(
		err,
		"fetch the image once, and build again: cloche template pull --name %.64s %.128s",
		name, reference);
}

/* What FROM names: a template by its own name, or an image that was imported, by its reference. */
static int find_base(const char *reference, struct docker_base *ret, void *arg, struct err *err)
{
	const struct http_req *req = arg;
	const struct api *api = http_app_arg(req);
	char name[TEMPLATE_NAME_MAX + 1];
	const struct template *t = template_find(api->fleet, caller_project(req), reference);

	template_name_of_image(reference, name, sizeof(name));
	if (!t)
		t = template_find(api->fleet, caller_project(req), name);
	if (!t)
		return refuse_base(reference, name, err);
	/* Else a Dockerfile would run a client's own image in a jail. */
	if (fleet_forbids(api->fleet, ENGINE_BASE))
		return err_set(err, ERR_FORBIDDEN, 0,
		               "this daemon's settings forbid jails, in which builds run");
	*ret = (struct docker_base){.image = *template_image(t),
	                            .name = template_name(t),
	                            .manifest = template_manifest(t)};
	return 0;
}

static int check_args(const json_t *args, struct err *err)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)unconst(args), name, value)
		if (!json_is_string(value) ||
		    strlen(json_string_value(value)) != json_string_length(value))
			return err_field(err, "build_args", "'%.64s' must be a text", name);
	return 0;
}

static int check_body(const struct http_req *req, const struct dockerfile_body *body,
                      struct err *err)
{
	const struct api *api = http_app_arg(req);
	int r;

	if (!body->name)
		return err_field(err, "name", "a build of a Dockerfile needs a name");
	r = template_check_name(body->name, err);
	if (r == 0 && recipe_shipped(body->name))
		r = err_field(err, "name", "'%s' is the name of a recipe that comes with cloche",
		              body->name);
	if (r == 0)
		r = check_args(body->build_args, err);
	if (r == 0 && body->files && !parcel_is_hash(body->files))
		r = err_field(err, "files", "must be what PUT /v1/builds/files has told");
	if (r == 0 && body->files && !parcel_has(api->builds, caller_project(req), body->files)) {
		(void)err_field(err, "files", "these files are not here (any more)");
		r = err_hint(err, "send them with PUT /v1/builds/files");
	}
	return r;
}

int dockerfile_recipe(const struct http_req *req, const struct dockerfile_body *body, json_t **ret,
                      struct err *err)
{
	const struct docker_request request = {.text = body->text,
	                                       .len = strlen(body->text),
	                                       .target = body->target,
	                                       .build_args = body->build_args,
	                                       .arch = ARCH,
	                                       .find = find_base,
	                                       .arg = unconst(req)};
	auto_json json_t *recipe = json_object();
	json_t *plan;
	int r = check_body(req, body, err);

	if (r == 0)
		r = docker_plan(&request, recipe, err);
	if (r < 0)
		return r;
	plan = json_object_get(recipe, "dockerfile");
	if (json_array_size(json_object_get(plan, "copies")) > 0 && !body->files)
		return err_field(err, "files", "the Dockerfile copies files, and none were sent");
	if (body->files)
		(void)json_object_set_new(plan, "context", json_string(body->files));
	(void)json_object_set_new(recipe, "name", json_string(body->name));
	*ret = take_ptr(recipe);
	return 0;
}
