// SPDX-License-Identifier: Apache-2.0
/* A recipe, as a client sends it. What is accepted has a name and something to start from. */
#include "build/recipe/recipe.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_json json_t *recipe = NULL;
	auto_json json_t *npm = NULL;
	struct err err = {0};

	if (recipe_parse("fuzz", (const char *)data, size, &recipe, &err) < 0) {
		assert(err.code != ERR_NONE && err.message[0] != '\0');
		return 0;
	}
	assert(json_object_get(recipe, "name"));
	(void)recipe_suite(recipe);
	npm = recipe_npm(recipe, "amd64");
	return 0;
}
