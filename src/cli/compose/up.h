// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The subcommands of `cloche compose`; arg is struct compose_opts. */
#include "cli/frame/group.h"

int compose_up(struct command *c, struct err *err);
int compose_down(struct command *c, struct err *err);
int compose_ps(struct command *c, struct err *err);
int compose_logs(struct command *c, struct err *err);
int compose_exec(struct command *c, struct err *err);
int compose_config(struct command *c, struct err *err);
