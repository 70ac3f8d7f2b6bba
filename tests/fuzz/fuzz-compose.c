// SPDX-License-Identifier: Apache-2.0
/* A Compose file, and a file of variables. What is accepted has services, each with what it is made
 * from, and can be written as JSON; what is refused says why. */
#include "base/json/json.h"
#include "cli/compose/compose_file.h"
#include "cli/compose/interpolate.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_file(const char *text, size_t size, const json_t *variables)
{
	const struct compose_source source = {
		.name = "compose.yaml", .text = text, .len = size, .variables = variables};
	auto_json json_t *model = NULL;
	auto_free char *written = NULL;
	struct err err = {0};
	const char *name;
	json_t *service;

	if (compose_file_read(&source, &model, &err) < 0) {
		assert(err.message[0] != '\0');
		return;
	}
	written = json_dumps(model, 0);
	assert(written && json_object_size(json_object_get(model, "services")) > 0);
	json_object_foreach (json_object_get(model, "services"), name, service)
		assert(json_object_get(service, "image") || json_object_get(service, "build") ||
		       json_object_get(service, "template"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_json json_t *variables = json_pack("{s:s, s:s}", "TAG", "1.2", "EMPTY", "");
	auto_json json_t *more = json_object();
	auto_free char *text = xcalloc(1, size + 1);
	struct err err = {0};

	memcpy(text, data, size);
	try_file(text, size, variables);
	if (strlen(text) == size && interpolate_file(".env", text, variables, more, &err) < 0)
		assert(err.message[0] != '\0');
	return 0;
}
