// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The subcommands of `cloche template` that are about builds. */
#include "cli/template/template_dockerfile.h"

struct template_build_opts {
	bool is_shared, is_fresh, is_detached, is_verbose;
	uint64_t retries;
	struct template_dockerfile_opts docker;
};

extern const struct resource build_resource;

int template_build(struct command *c, struct err *err); /* arg: struct template_opts */
int template_log(struct command *c, struct err *err);
