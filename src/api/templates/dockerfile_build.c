// SPDX-License-Identifier: Apache-2.0
#include "api/templates/dockerfile_build.h"

#include "api/frame/find.h"
#include "build/bases.h"
#include "build/parcel.h"
#include "build/recipe/recipe.h"
#include "sandbox/storage/template.h"

#include <string.h>

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
		r = err_field(err, "files", "must be what PUT /v1/builds/files returned");
	if (r == 0 && body->files && !parcel_has(api->builds, caller_project(req), body->files)) {
		(void)err_field(err, "files", "these files are not here (any more)");
		r = err_hint(err, "send them with PUT /v1/builds/files");
	}
	return r;
}

int dockerfile_recipe(const struct http_req *req, const struct dockerfile_body *body, json_t **ret,
                      struct err *err)
{
	const struct api *api = http_app_arg(req);
	const struct bases_wish wish = {.project_id = caller_project(req),
	                                .text = body->text,
	                                .name = body->name,
	                                .files = body->files,
	                                .target = body->target,
	                                .build_args = body->build_args};
	int r = check_body(req, body, err);

	return r < 0 ? r : bases_plan(api->builds, &wish, ret, err);
}
