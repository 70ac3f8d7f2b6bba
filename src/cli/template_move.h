// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The subcommands of `cloche template` by which templates come in and go out. */
#include "cli/group.h"

struct template_import_opts {
	const char *name, *ref;
	bool is_shared, is_replacing, is_small;
};

int template_import(struct command *c, struct err *err); /* arg: struct template_opts */
