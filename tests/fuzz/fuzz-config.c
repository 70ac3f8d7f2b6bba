// SPDX-License-Identifier: Apache-2.0
/* The settings file. Root's own, yet a parser all the same: it must end, and refuse with a
 * sentence. */
#include "daemon/config/config.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config config;
	struct err err = {0};

	config_init(&config);
	if (config_parse(&config, "fuzz", (const char *)data, size, &err) < 0)
		assert(err.code != ERR_NONE && err.message[0] != '\0');
	config_done(&config);
	return 0;
}
