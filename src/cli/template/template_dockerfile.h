// SPDX-License-Identifier: Apache-2.0
#pragma once
/* `cloche template build --dockerfile`: sends the directory's files, and what to build of them. */
#include "cli/frame/group.h"

struct template_dockerfile_opts {
	const char *path; /* a file, or a directory with a Dockerfile; NULL: no Dockerfile */
	const char *name, *target;
	struct opt_list args; /* NAME=VALUE, or NAME for the caller's own variable */
};

/* Adds to the body of a build. context: a directory, or NULL for that of the Dockerfile. */
must_check int template_put_dockerfile(struct command *c, const struct template_dockerfile_opts *o,
                                       const char *context, json_t *body, struct err *err);
