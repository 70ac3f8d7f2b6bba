// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Which id a request is about, as far as its head says: the first one in its path, the one in the
 * name of a preview, or in a field of E2B's and of MCP's. */
#include "base/id.h"

#include <stdbool.h>

struct hop_asked {
	const char *target, *host, *sandbox_field, *session_field; /* each may be NULL */
	const char *preview_domain;                                /* NULL: none */
};

struct hop_id {
	char text[ID_SIZE]; /* with its kind */
	bool is_by_name;    /* of a preview: its Host is not one of the daemon's */
};

bool hop_id_find(const struct hop_asked *asked, struct hop_id *ret);
