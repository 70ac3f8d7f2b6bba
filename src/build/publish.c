// SPDX-License-Identifier: Apache-2.0
/* Publishes the result of a build under its name, and under further names of its recipe (tags of
 * the other products' APIs). Each is a template of the same image. */
#include "build/plan.h"

#include "build/set.h"
#include "sandbox/storage/template.h"

static int publish_as(struct build *b, const char *name, struct template **ret, struct err *err)
{
	auto_json json_t *manifest = plan_manifest(b);
	const struct template_spec spec = {.project_id = b->is_shared ? NULL : b->project_id,
	                                   .name = name,
	                                   .image = b->image,
	                                   .manifest = manifest,
	                                   .is_replacing = true,
	                                   .is_set = build_is_set(b)};

	return template_publish(b->owner->config.fleet, &spec, ret, err);
}

int publish_build(struct build *b, struct err *err)
{
	const json_t *also = json_object_get(b->recipe, "also");
	struct template *t, *other;
	int r = publish_as(b, build_name(b), &t, err);

	for (size_t i = 0; r == 0 && i < json_array_size(also); i++)
		r = publish_as(b, json_string_value(json_array_get(also, i)), &other, err);
	if (r == 0 && build_is_set(b))
		set_trim(b->owner, t);
	return r;
}
