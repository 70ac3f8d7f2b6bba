// SPDX-License-Identifier: Apache-2.0
/* A Dockerfile, as a client sends it. It becomes a recipe whose parts are of its stages, or an
 * error with a message. */
#include "build/dockerfile/dockerfile_plan.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int find(const char *reference, struct docker_base *ret, void *arg, struct err *err)
{
	(void)arg;
	if (*reference == 'x')
		return err_field(err, "dockerfile", "there is no template '%.64s'", reference);
	ret->name = "base";
	return 0;
}

static void check(const json_t *recipe)
{
	const json_t *plan = json_object_get(recipe, "dockerfile");
	const json_t *parts = json_object_get(plan, "parts");
	const size_t n = json_array_size(json_object_get(plan, "stages"));

	assert((size_t)json_integer_value(json_object_get(plan, "target")) < n);
	for (size_t i = 0; i < json_array_size(parts); i++) {
		const json_t *part = json_array_get(parts, i);

		assert((size_t)json_integer_value(json_object_get(part, "stage")) < n);
		assert(json_array_size(json_object_get(part, "run")) % 2 == 0);
	}
	assert(json_is_string(json_object_get(recipe, "user")));
	assert(json_string_value(json_object_get(recipe, "cwd"))[0] == '/');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_json json_t *recipe = json_object();
	const struct docker_request request = {
		.text = (const char *)data, .len = size, .arch = "amd64", .find = find};
	struct err err = {0};

	if (docker_plan(&request, recipe, &err) == 0)
		check(recipe);
	else
		assert(err.code != ERR_NONE && err.message[0] != '\0');
	return 0;
}
