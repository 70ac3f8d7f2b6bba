// SPDX-License-Identifier: Apache-2.0
/* The JSON of an image, as each of the things that it may claim to be. What is accepted is whole.
 */
#include "oci/oci.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_index(const json_t *json)
{
	const struct oci_wish wishes[] = {{"amd64", NULL}, {"arm64", "1.0"}};
	struct oci_blob blob;
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(wishes); i++)
		if (oci_choose(json, &wishes[i], &blob, &err) == 0)
			assert(blob.bytes > 0 && blob.bytes <= OCI_JSON_MAX);
}

static void try_saved(const json_t *json)
{
	struct oci_saved saved;
	struct err err;

	if (oci_choose_saved(json, NULL, &saved, &err) < 0)
		return;
	assert(saved.config && saved.n_layers <= OCI_LAYERS_MAX);
	for (size_t i = 0; i < saved.n_layers; i++)
		assert(saved.layers[i]);
	oci_saved_done(&saved);
}

static void try_manifest(const json_t *json)
{
	struct oci_manifest m;
	struct err err;

	if (oci_read_manifest(json, &m, &err) < 0)
		return;
	assert(m.n_layers <= OCI_LAYERS_MAX && m.config.bytes > 0);
	oci_manifest_done(&m);
}

static void try_config(const json_t *json)
{
	struct oci_config config;
	struct err err;

	if (oci_read_config(json, "amd64", &config, &err) < 0)
		return;
	assert(json_is_string(json_object_get(config.defaults, "user")));
	oci_config_done(&config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_json json_t *json = NULL;
	struct err err;

	if (json_parse((const char *)data, size, &json, &err) < 0)
		return 0;
	try_index(json);
	try_saved(json);
	try_manifest(json);
	try_config(json);
	return 0;
}
