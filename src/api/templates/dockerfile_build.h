// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A build of a Dockerfile, as the body of a request asks for it. */
#include "api/api.h"

struct dockerfile_body { /* of the request; borrowed */
	const char *text, *name, *files, *target;
	json_t *build_args;
};

/* The recipe that it becomes; the caller owns it. */
must_check int dockerfile_recipe(const struct http_req *req, const struct dockerfile_body *body,
                                 json_t **ret, struct err *err);
