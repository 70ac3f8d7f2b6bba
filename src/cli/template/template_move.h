// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The subcommands of `cloche template` by which templates come in and go out. */
#include "cli/frame/group.h"

struct template_import_opts {
	const char *name, *ref;
	bool is_shared, is_replacing, is_small;
};

struct template_export_opts {
	const char *path;
};

struct template_pull_opts {
	const char *name, *username, *token_host;
	bool is_shared, is_replacing, is_small;
};

int template_export(struct command *c, struct err *err); /* arg: struct template_opts */
int template_import(struct command *c, struct err *err); /* arg: struct template_opts */
int template_pull(struct command *c, struct err *err);   /* arg: struct template_opts */
