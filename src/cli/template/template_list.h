// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The subcommands of `cloche template` that are about templates that there are. */
#include "cli/frame/group.h"

struct template_from_opts {
	bool is_shared, is_replacing, is_small, is_tree;
	const char *user, *cwd;
	struct opt_list env;
};

extern const struct resource template_resource;
int template_ls(struct command *c, struct err *err);
int template_from(struct command *c, struct err *err); /* arg: struct template_opts */
