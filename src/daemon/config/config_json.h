// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The settings as GET /v1/settings tells them: value, default, origin, and what a change needs. */
#include "daemon/config/config.h"

#include <jansson.h>

struct found_setting { /* what the host says where neither file nor command line does */
	const char *option;
	const char *value; /* NULL: nothing */
	struct origin origin;
};

/* A new reference; NULL with err. */
json_t *config_json(const struct config *c, const struct found_setting *found, size_t n_found,
                    struct err *err);
