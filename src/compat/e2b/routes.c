// SPDX-License-Identifier: Apache-2.0
/* E2B's routes as a table, like src/api/routes.c. */
#include "compat/e2b/e2b.h"

#define SANDBOX "/sandboxes/{id}"

/* clang-format off */
static const struct http_route routes[] = {
	{HTTP_DELETE, SANDBOX,            e2b_kill_sandbox, HTTP_BODY_NONE,   SCOPE_WRITE},
};
/* clang-format on */

const struct face e2b_face = {
	.routes = routes,
	.n_routes = ARRAY_SIZE(routes),
	.owns = e2b_owns,
	.fail = e2b_fail,
};
