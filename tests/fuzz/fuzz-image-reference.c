// SPDX-License-Identifier: Apache-2.0
/* The name of an image, as a client sends it, and a default place before it. What is accepted has
 * no part that leads upwards, and is accepted again as it is spelt. */
#include "build/image/image_reference.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *text = xstrndup((const char *)data, size);
	char *place = strchr(text, '\n');
	struct image_reference ref, again;
	char spelt[IMAGE_REF_MAX], twice[IMAGE_REF_MAX];
	struct err err = {0};

	if (place)
		*place++ = '\0';
	if (image_reference_parse(text, place, "ref", &ref, &err) < 0) {
		assert(err.code == ERR_INVALID_FIELD && err.message[0] != '\0');
		return 0;
	}
	image_reference_format(&ref, spelt);
	assert(!strstr(ref.name, "..") && !strpbrk(ref.name, "%?# \\"));
	if (!ref.host.is_name || strchr(ref.host.name.text, '.') || ref.port) {
		assert(image_reference_parse(spelt, NULL, "ref", &again, &err) == 0);
		image_reference_format(&again, twice);
		assert(strcmp(spelt, twice) == 0);
	}
	return 0;
}
