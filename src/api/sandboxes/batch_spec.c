// SPDX-License-Identifier: Apache-2.0
#include "api/frame/body.h"
#include "api/sandboxes/batch.h"
#include "sandbox/model/batch_tag.h"

/* What makes no sense for many, or would not last as long as the request. */
static int check_spec(const struct sandbox_spec *spec, bool is_get,
                      const struct port_numbers *ports, struct err *err)
{
	if (spec->name)
		return err_field(err, "name", "is for one sandbox, and a batch has many");
	if (is_get)
		return err_field(err, "get_or_create", "is for one sandbox, and a batch has many");
	if (ports->n > 0)
		return err_field(err, "ports", "are opened one by one, when a sandbox runs");
	if (spec->is_persistent)
		return err_field(err, "persistent",
		                 "is for sandboxes that are created by themselves");
	if (spec->group || spec->alias)
		return err_field(err, spec->group ? "group" : "alias",
		                 "is for sandboxes that are created by themselves");
	if (spec->packages)
		return err_field(err, "packages",
		                 "are not installed by a batch: give a template that has them");
	if (json_object_get(spec->tags, BATCH_TAG) || json_object_get(spec->tags, BATCH_INDEX_TAG))
		return err_field(err, "tags",
		                 BATCH_TAG " and " BATCH_INDEX_TAG " are set by the batch");
	return 0;
}

int batch_read(const json_t *body, struct sandbox_spec *ret_spec, uint64_t *ret_count,
               struct err *err)
{
	const json_t *count = json_object_get(body, "count");
	json_t *rest = body ? json_copy((json_t *)unconst(body)) : NULL;
	struct port_numbers ports;
	bool is_get;
	int r;

	if (json_is_object(rest))
		(void)json_object_del(rest, "count");
	r = body_read_create(rest, ret_spec, &is_get, &ports, err);
	json_decref(rest);
	if (r < 0)
		return r;
	if (!json_is_integer(count) || json_integer_value(count) < 1 ||
	    json_integer_value(count) > BATCH_MAX)
		return err_field(err, "count", "must be a number from 1 to %d", BATCH_MAX);
	*ret_count = (uint64_t)json_integer_value(count);
	return r < 0 ? r : check_spec(ret_spec, is_get, &ports, err);
}
