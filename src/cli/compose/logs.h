// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the commands of a project's services print: each line behind the name of its service. */
#include "cli/compose/project.h"

/* Those of one service, or with NULL of all; with is_following until all have ended. */
must_check int logs_print(const struct project *p, const char *service, bool is_following,
                          struct err *err);
